"""Child processes and the messages between them and their parent."""
