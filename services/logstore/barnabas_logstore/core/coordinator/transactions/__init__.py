"""What transactions are: their states, what each request makes of them, and their records in `__transaction_state`."""
