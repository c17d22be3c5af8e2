"""Where the configuration of a demo that an earlier release played, and somebody kept, looks for its agents' program
(relay/app/demo/agent.py)."""

from relay.app.demo.agent import main

if __name__ == "__main__":
    raise SystemExit(main())
