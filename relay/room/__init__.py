"""The room: transcript, commands, dispatcher, queue, breakers."""
