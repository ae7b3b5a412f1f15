"""Mutants of the Lua scripts: of claims, of fences, of what is done once."""

from tests.mutants.mutant import Mutant

QUEUE = "tests/worker/test_queue.py"
REFUSALS = "tests/worker/test_pass_refusals.py"
HOOKS = "tests/worker/test_hooks.py"
PASSES = "tests/worker/test_pass_scripts.py"
BEGIN = "tests/worker/test_begin.py"
TOOLS = "tests/worker/test_tool_scripts.py"
RUNS = "tests/worker/test_runs.py"
CANCEL = "tests/worker/test_run_cancel.py"
LOG = "tests/worker/test_event_log.py"


def lua(name: str) -> str:
    """Return the path of a script."""
    return f"worker/lua/{name}.lua"


OF_SCRIPTS = (
    Mutant(
        "any token owns a job",
        lua("shared/queue"),
        "return redis.call('HGET', queue .. ':tokens', id) == token",
        "return true",
        (QUEUE,),
    ),
    Mutant(
        "an enqueue wakes nobody",
        lua("shared/queue"),
        "  redis.call('ZADD', queue, due, id)\n  if due <= now then wake(queue) end",
        "  redis.call('ZADD', queue, due, id)",
        (QUEUE,),
    ),
    Mutant(
        "a lapsed claim is never taken",
        lua("claim"),
        "'ZRANGEBYSCORE', queue .. ':claims', '-inf', now,",
        "'ZRANGEBYSCORE', queue .. ':claims', '-inf', 0,",
        (QUEUE,),
    ),
    Mutant(
        "what is due goes before lapsed claims",
        lua("claim"),
        "claim_due(at, share - claim_lapsed(at, share))",
        "claim_due(at, share)\n  claim_lapsed(at, math.min(share, free))",
        (QUEUE,),
    ),
    Mutant(
        "a worker takes all it has room for",
        lua("claim"),
        "return math.min(free, most, math.max(1, math.ceil(all / workers) - own))",
        "return math.min(free, most)",
        (QUEUE,),
    ),
    Mutant(
        "a renewal tells of no lost claim",
        lua("renew"),
        "lost[#lost + 1] = token",
        "lost = lost",
        (QUEUE,),
    ),
    Mutant(
        "a renewal restores nothing",
        lua("renew"),
        "    hold(queue, id, token, now, lease)\n",
        "",
        (QUEUE,),
    ),
    Mutant(
        "the epoch of a script counts for nothing",
        lua("shared/flush"),
        "  if sent_epoch ~= epoch then return LEFT end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a settled run takes more scripts",
        lua("shared/flush"),
        "  if run[2] ~= epoch or run[3] ~= 'running' then return LEFT end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a script that was done is done again",
        lua("shared/flush"),
        "  if tonumber(number) <= tonumber(sent_number) then return REPEATED end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a script may go before the one ahead of it",
        lua("shared/flush"),
        "  if tonumber(number) > tonumber(sent_number) + 1 then return GAP end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a slot takes another message",
        lua("shared/flush"),
        "  if differs then return differs end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a session takes messages of a run that does not own it",
        lua("shared/flush"),
        "  if #messages > 0 and not owns_session(record) then return LEFT, 0, at end\n",
        "",
        (REFUSALS,),
    ),
    Mutant(
        "a reset points at the newest open turn",
        lua("begin"),
        "after = math.min(after or math.huge, tonumber(fields[i + 1]))",
        "after = math.max(after or 0, tonumber(fields[i + 1]))",
        (BEGIN,),
    ),
    Mutant(
        "what an open turn showed counts as shown",
        lua("begin"),
        "while after do",
        "while false do",
        (BEGIN,),
    ),
    Mutant(
        "a takeover is no new attempt",
        lua("begin"),
        "if attempt == 0 or taken > 0 then attempt = attempt + 1 end",
        "if attempt == 0 then attempt = attempt + 1 end",
        (BEGIN,),
    ),
    Mutant(
        "progress does not reset the count of lost workers",
        lua("record_unit"),
        "redis.call('HSET', record, 'poison', 0)\n",
        "",
        (BEGIN,),
    ),
    Mutant(
        "a tool that may not be repeated is",
        lua("start_tool"),
        "call[1] == 'started' and call[2] ~= '1' and not is_repeat",
        "false",
        (TOOLS,),
    ),
    Mutant(
        "a call is started each time that it is asked for",
        lua("start_call"),
        "if not before then\n",
        "if true then\n",
        (PASSES,),
    ),
    Mutant(
        "a started call may shorten its turn",
        lua("shared/flush"),
        "not known[1] and tonumber(before) < tonumber(length)",
        "not known[1]",
        (PASSES,),
    ),
    Mutant(
        "a late result takes the place of the first",
        lua("finish_tool"),
        "(state ~= 'started' and state ~= 'queued')",
        "false",
        ("tests/worker/test_tool_job.py::test_a_late_result_is_refused_and_logged",),
    ),
    Mutant(
        "a call that has begun is withdrawn",
        lua("withdraw_call"),
        "if call[1] ~= 'queued' then return { GO_ON, false } end\n",
        "",
        (TOOLS,),
    ),
    Mutant(
        "what a tool tells twice is appended twice",
        lua("progress_tool"),
        "if redis.call('HGET', calls, key .. '|told') == entry then return 1 end\n",
        "",
        (TOOLS,),
    ),
    Mutant(
        "nobody tells a running loop of its answer",
        lua("shared/run"),
        "elseif status == 'running' then\n    nudge",
        "elseif status == 'nobody' then\n    nudge",
        (TOOLS,),
    ),
    Mutant(
        "a run is parked although its answer is there",
        lua("park"),
        "if redis.call('HEXISTS', record .. ':calls', key .. '|result') == 1\n",
        "if false\n",
        (REFUSALS,),
    ),
    Mutant(
        "a hook is answered twice",
        lua("answer_hook"),
        "if state ~= 'open' then return { 0, state } end",
        "",
        (HOOKS,),
    ),
    Mutant(
        "an open hook outlives its run",
        lua("shared/run"),
        "  drop_hooks(record, now)\n",
        "",
        (HOOKS,),
    ),
    Mutant(
        "a question that is not asked any more stays open",
        lua("shared/hooks"),
        "if before and redis.call('HGET', hooks, before .. '|state') == 'open' then",
        "if false then",
        (HOOKS,),
    ),
    Mutant(
        "the end of a run is told and not on record",
        lua("shared/run"),
        "redis.call('HSET', record, 'status', status, 'finished',",
        "redis.call('HSET', record, 'outcome', status, 'finished',",
        (PASSES,),
    ),
    Mutant(
        "a settled run keeps its session",
        lua("shared/run"),
        "  free_session(record, now)\n  redis.call('DEL', record .. ':yields'",
        "  redis.call('DEL', record .. ':yields'",
        (CANCEL,),
    ),
    Mutant(
        "a settled run is kept as long as a live one",
        lua("shared/run"),
        "  expire(record, PARTS, now + tonumber(job[3]))\n",
        "",
        (PASSES,),
    ),
    Mutant(
        "a run's keys stay for ever",
        lua("shared/log"),
        "    redis.call('PEXPIREAT', record .. part, string.format('%d', at))\n",
        "",
        (RUNS,),
    ),
    Mutant(
        "whatever is appended is published whole",
        lua("shared/log"),
        "if #events > PUBLISH_LIMIT then",
        "if false then",
        (LOG,),
    ),
    Mutant(
        "an idempotency key answers any request",
        lua("shared/new_run"),
        "return digest == given[5] and 2 or 3, run",
        "return 2, run",
        (RUNS,),
    ),
)
"""In the order of the scripts' life."""
