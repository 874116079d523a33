"""Signed tokens (JWTs) and the keys of those who issue them, for gateways (OAUTHBEARER) and controllers (operators)."""
