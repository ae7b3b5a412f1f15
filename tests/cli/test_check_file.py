"""`loopmill check FILE`: what a configuration comes to, without anything that is started."""

import subprocess
from collections.abc import Callable
from pathlib import Path

Here = Callable[..., subprocess.CompletedProcess[str]]

MODULE = """
from loops.gateway.custom_logger import CustomLogger

class Mine(CustomLogger):
    async def async_should_run_agentic_loop(self, **arguments): return False, {}
    async def async_build_agentic_loop_plan(self, **arguments): raise NotImplementedError

class Half(CustomLogger):
    async def async_build_agentic_loop_plan(self, **arguments): raise NotImplementedError

mine, half = Mine(), Half()
def rule(text): return True
"""

FIT = """
model_list: [{model_name: fast, params: {model: vllm/x, max_agentic_loops: 5}}]
callbacks: [mine.mine, compression]
callback_settings: {compression: {enabled: false}}
gateway: {streaming: merged, post_call_rules: mine.rule}
"""

UNFIT = """
model_list: [{model_name: fast, params: {model: vllm/x, max_agentic_loops: 0}}]
callbacks: [mine.Mine, mine.mien, mine.half, web_search]
gateway: {ping: 99, strming: hold}
"""


def write(folder: Path, text: str) -> str:
    (folder / "conf").mkdir()
    (folder / "conf" / "mine.py").write_text(MODULE)
    (folder / "conf" / "config.yaml").write_text(text)
    return "conf/config.yaml"


def test_a_fit_file_is_told_with_what_each_entry_is(here: Here, tmp_path: Path) -> None:
    shown = here("check", write(tmp_path, FIT), LOOPMILL_APP="")

    assert (shown.returncode, shown.stderr) == (0, "")
    model, callback, off, rule, gateway, end = shown.stdout.splitlines()
    assert model.startswith("✓ model     'fast': vllm/x, ")
    assert model.endswith(", asked again 5 times at most")
    assert callback == (
        "✓ callback  callbacks entry 'mine.mine' is a mine.Mine, which overrides "
        "async_build_agentic_loop_plan, async_should_run_agentic_loop"
    )
    assert off == "✓ callback  callbacks entry 'compression' is switched off"
    assert rule == "✓ rule      gateway.post_call_rules entry 'mine.rule' is rule"
    assert gateway.startswith("✓ gateway   streaming merged; 5m for a builder, 10s until a ping")
    assert end == "0 problems"


def test_all_problems_of_a_file_are_told_at_once(here: Here, tmp_path: Path) -> None:
    shown = here("check", write(tmp_path, UNFIT), LOOPMILL_APP="")

    problems = [line for line in shown.stdout.splitlines() if line.startswith("!")]
    said = [
        "gateway.ping: callers give a stream up",
        "gateway.strming is nothing that is read",
        "params.max_agentic_loops on model 'fast' must be at least 1, got 0",
        "'mine.Mine' is the class Mine; name an instance: write mine.mine",
        "the module 'mine' has no 'mien'; did you mean 'mine'",
        "Half overrides async_build_agentic_loop_plan and not async_should_run_agentic_loop",
        "callback_settings.web_search.search names no function",
    ]
    assert shown.returncode == 1
    assert len(problems) == len(said)
    assert [text for text, line in zip(said, problems, strict=True) if text not in line] == []
