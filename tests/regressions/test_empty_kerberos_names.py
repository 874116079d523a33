"""A Kerberos principal without any character was a user without a name (found by fuzzing `client_names`).

A security context never names one, and `@REALM` was refused already.
"""

from __future__ import annotations

import pytest

from barnabas_gateway.core.model.kerberos_names import DEFAULT_RULES, short_name


def test_a_principal_without_a_character_is_no_user() -> None:
    with pytest.raises(ValueError, match="empty"):
        short_name(DEFAULT_RULES, "", "REALM.COM")
