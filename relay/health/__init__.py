"""What the health check looks at; `relay.healthcheck` is the command, `relay.repair` mends."""
