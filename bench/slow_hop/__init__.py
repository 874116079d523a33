"""One logstore made slow on purpose, under load: do the metrics alone say which, and at which hop?"""
