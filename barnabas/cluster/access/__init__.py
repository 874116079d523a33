"""Who may do what inside, and how clients say who they are: tables, without I/O."""
