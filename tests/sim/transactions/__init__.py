"""Transactions in the simulation: who makes them, what logs have of them, and what must be true of them."""
