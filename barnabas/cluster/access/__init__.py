"""Who may do what inside, what is recorded of it, and how clients say who they are: tables, without I/O."""
