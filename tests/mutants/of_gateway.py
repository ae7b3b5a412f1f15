"""Promises of the gateway, each broken in one place."""

from tests.mutants.mutant import Mutant

GATEWAY = (
    Mutant(
        "a plan that was begun is built again",
        "loops/gateway/planning.py",
        "        if not is_ours:",
        "        if False:",
        ("tests/gateway/test_killed_workers.py",),
    ),
    Mutant(
        "the same calls are answered for ever",
        "loops/gateway/claims.py",
        "    if claim.fingerprint in call.fingerprints:",
        "    if False:",
        ("tests/gateway/test_loop_safety.py",),
    ),
    Mutant(
        "a claimed call may be the last thing that a caller sees",
        "loops/gateway/messages_view.py",
        "        return _closing_message(self._message)",
        "        return []",
        ("tests/gateway/test_views.py",),
    ),
    Mutant(
        "a call of the client's own is lost in a mixed turn",
        "loops/gateway/carried.py",
        "                self._kept = [*left, *calls]",
        "                self._kept = left",
        ("tests/gateway/test_views.py",),
    ),
    Mutant(
        "a forced call is forced again",
        "loops/gateway/next_request.py",
        "        body = without_forced_choice(call.surface, body)",
        "        pass",
        ("tests/gateway/test_plans.py",),
    ),
    Mutant(
        "a caller may choose whom we ask",
        "loops/gateway/translating.py",
        "        if name not in _NOT_THEIRS and not is_inner(name)",
        "        if not is_inner(name)",
        ("tests/gateway/test_translating.py",),
    ),
)
