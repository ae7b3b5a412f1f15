"""Where the cases of the agents' behaviour are tested: by number, `w` for those on workers.

The numbers are those of the list that the cases were restated from. Where ours behaves otherwise on
purpose, the test says what ours does.
"""

LOOPS, WORKER, AGENTS = "tests/loops/", "tests/worker/", "tests/agents/"

_ANYWHERE = f"{AGENTS}test_anywhere.py::"
_APPROVALS = f"{AGENTS}test_approvals.py::"
_ASKED = f"{AGENTS}test_hooks.py::"
_ASKED_ANYWHERE = f"{AGENTS}test_hooks_anywhere.py::"
_ASKED_ON_WORKERS = f"{WORKER}test_hooks.py::"
_BLOCKED = f"{AGENTS}test_blocked.py::"
_BUFFER = f"{LOOPS}test_buffer.py::"
_DEFAULT = f"{LOOPS}test_default.py::"
_DEFERRED = f"{AGENTS}test_deferred.py::"
_DRIVE = f"{WORKER}test_drive.py::"
_FOLD = f"{LOOPS}test_fold.py::"
_GATHERED = f"{AGENTS}test_aggregators.py::"
_HYDRATED = f"{AGENTS}test_hydrating.py::"
_HISTORY = f"{LOOPS}test_history.py::"
_MERGING = f"{AGENTS}test_merging.py::"
_PERFORM = f"{LOOPS}test_perform.py::"
_RUNNER = f"{LOOPS}test_tool_runner.py::"
_STREAM = f"{LOOPS}test_stream.py::"
_STREAM_OF_AGENT = f"{LOOPS}test_agent_stream.py::"
_UTIL = f"{LOOPS}test_util.py::"

_SAME = f"{_ANYWHERE}test_a_run_gives_the_same_wherever_it_runs"
_ITERABLE = f"{_ANYWHERE}test_45_what_an_iterable_gives_is_told_piece_by_piece"
_SCHEMA = f"{_ANYWHERE}test_15_to_18_a_model_is_told_types_and_what_may_be_left_out"
_UNFIT = f"{_APPROVALS}test_40_to_42_nobody_is_asked_about_arguments_that_do_not_fit"
_GRANTED = f"{_ASKED_ON_WORKERS}test_a_granted_call_is_carried_out_once"
_ALONE = f"{_ASKED_ON_WORKERS}test_66_71_a_loop_answers_its_own_hooks"
_PIECES = f"{_PERFORM}test_values_of_a_stream_are_all_given_and_the_last_is_the_result"
_PIECES_ON_WORKERS = f"{_DRIVE}test_what_a_streaming_tool_yields_is_told_whole_and_in_order"
_OF_CONTEXT_OR_MODEL = f"{_STREAM}test_a_stream_is_of_a_context_or_of_a_model"
_MENDED = f"{_HISTORY}test_a_broken_history_is_mended"

LOOP = {
    "1": f"{_DEFAULT}test_text_alone_is_one_turn",
    "1w": f"{_DRIVE}test_a_run_without_tools_ends_with_its_text",
    "2": f"{_DEFAULT}test_a_call_is_answered_and_the_model_asked_again",
    "2w": _SAME,
    "3": f"{_DEFAULT}test_calls_of_one_message_run_side_by_side",
    "3w": _SAME,
    "4": f"{_DEFAULT}test_each_turn_sees_the_results_of_the_one_before",
    "4w": _SAME,
    "5": f"{_BUFFER}test_a_source_is_ahead_by_the_size_at_most",
    "6": f"{_MERGING}test_6_what_the_runtime_tells_arrives_beside_what_the_loop_yields",
    "7": f"{_STREAM_OF_AGENT}test_a_loop_runs_on_by_itself",
    "8": f"{_STREAM_OF_AGENT}test_a_loop_is_ahead_of_its_reader_by_its_buffer",
    "9": f"{LOOPS}test_agent.py::test_a_tool_can_ask_whose_run_it_is_in",
    "9w": f"{_ANYWHERE}test_9_a_tool_can_ask_whose_run_it_is_in",
    "12": f"{LOOPS}test_agent.py::test_usage_is_added_over_turns",
}

TOOLS = {
    "15": _SCHEMA,
    "16": _SCHEMA,
    "17": _SCHEMA,
    "17w": _SCHEMA,
    "18": _SCHEMA,
    "18w": _SCHEMA,
    "19": f"{_PERFORM}test_the_result_carries_the_identity_of_the_call",
    "19w": _SAME,
    "20": f"{LOOPS}test_bound_call.py::test_a_bound_call_gives_its_result_as_an_event",
    "20w": f"{_ANYWHERE}test_20_a_call_is_answered_by_one_message_of_the_tools",
    "21": f"{_RUNNER}test_leaving_by_an_error_cancels_the_oldest_call_first",
    "22": f"{_RUNNER}test_a_discarded_call_leaves_no_trace",
    "23": f"{_PERFORM}test_a_tool_can_ask_which_call_it_is",
    "24": f"{_RUNNER}test_a_cancelled_call_still_gets_its_one_result",
    "24w": f"{_ANYWHERE}test_24_a_call_whose_task_is_cancelled_has_its_one_result",
    "25": f"{_DEFAULT}test_a_tool_that_raises_does_not_stop_the_run",
    "25w": f"{_DRIVE}test_a_tool_that_raises_is_an_error_result_and_the_run_goes_on",
    "26": f"{_PERFORM}test_whatever_a_tool_raises_is_its_result",
    "26w": _SAME,
    "27": f"{_PERFORM}test_a_plain_function_runs_in_a_thread",
    "28": f"{_PERFORM}test_a_plain_function_may_give_something_to_wait_for",
    "29": _PIECES,
    "30": f"{LOOPS}test_bound_call.py::test_overrides_mend_what_the_model_wrote",
    "31": f"{LOOPS}test_bound_call.py::test_a_wrong_override_is_the_program_s_own_fault",
    "32": f"{_DEFAULT}test_a_wish_that_cannot_be_fulfilled_is_told_to_the_model",
    "32w": _SAME,
    "33": f"{LOOPS}test_tools.py::test_nested_models_arrive_as_instances",
    "33w": _SAME,
    "40": _UNFIT,
    "40w": _SAME,
    "41": _UNFIT,
    "41w": _SAME,
    "42": _UNFIT,
    "42w": _SAME,
    "43": _PIECES,
    "43w": _PIECES_ON_WORKERS,
    "44": (f"{_DEFAULT}test_partial_results_come_before_their_result_also_with_a_slow_reader"),
    "44w": _PIECES_ON_WORKERS,
    "45": _PIECES,
    "45w": _ITERABLE,
    **dict.fromkeys(
        ["34", "34w"],
        f"{_GATHERED}test_34_the_result_is_kept_whole_and_the_model_is_told_something_else",
    ),
    **dict.fromkeys(["35", "35w"], f"{_GATHERED}test_35_without_it_the_model_is_told_the_result"),
    **dict.fromkeys(["36", "36w"], f"{_GATHERED}test_36_a_failure_is_told_as_it_is"),
    **dict.fromkeys(["37", "37w"], f"{_GATHERED}test_37_what_cannot_be_told_is_a_failure"),
    **dict.fromkeys(
        ["38", "39", "38w", "39w"],
        f"{_GATHERED}test_38_39_who_says_twice_what_the_model_is_told_is_refused",
    ),
    **dict.fromkeys(
        [str(number) for number in range(47, 53)],
        f"{_GATHERED}test_47_to_52_pieces_are_gathered_as_the_tool_says",
    ),
    **dict.fromkeys(["53", "54"], f"{_GATHERED}test_53_54_two_marks_are_one_too_many"),
    **dict.fromkeys(
        [str(number) for number in range(55, 61)],
        f"{_GATHERED}test_55_to_60_a_tool_knows_the_type_of_its_result",
    ),
    **dict.fromkeys(
        ["61", "62", "63"],
        f"{_GATHERED}test_61_to_63_what_is_written_side_by_side_keeps_its_place",
    ),
    "64": f"{_GATHERED}test_64_a_reply_that_is_asked_again_is_forgotten_with_its_results",
    "65": f"{_GATHERED}test_65_what_is_no_part_of_a_reply_changes_nothing",
    "46": f"{_ANYWHERE}test_46_what_an_agent_inside_of_a_tool_says_is_told_as_the_tools",
    "46w": f"{_ANYWHERE}test_46_what_an_agent_inside_of_a_tool_says_is_told_as_the_tools",
}

HOOKS = {
    "66": f"{_ASKED}test_66_an_answer_reaches_the_code_that_waits_as_its_type",
    "66w": f"{_ASKED_ON_WORKERS}test_a_run_that_waits_holds_no_slot",
    "67": f"{_ASKED}test_67_a_cancelled_hook_is_a_cancellation_where_it_is_awaited",
    "67w": f"{_ASKED_ON_WORKERS}test_67_a_cancelled_hook_is_a_cancellation_where_it_is_awaited",
    "68": f"{_ASKED}test_68_what_is_not_open_cannot_be_cancelled",
    "69": f"{_ASKED}test_69_an_answer_may_come_before_the_question",
    "69w": _ALONE,
    "70": f"{_ASKED}test_70_a_hook_of_another_registry_is_none_of_the_runs",
    "71": f"{_ASKED}test_71_a_registry_may_be_the_callers_own",
    "71w": _ALONE,
    "72": f"{_ASKED}test_72_a_run_inside_of_a_run_asks_the_outermost_reader",
    "72w": f"{_ASKED_ANYWHERE}test_72_a_run_inside_of_a_loop_asks_as_the_run_around_it",
    "73": f"{_ASKED}test_73_an_answer_is_held_against_its_type_at_once",
    "73w": f"{_ASKED_ANYWHERE}test_73_a_loop_that_answers_itself_is_held_to_the_type",
    "74": f"{_ASKED}test_74_the_answer_is_told_once_with_what_it_is",
    "74w": _GRANTED,
    "75": f"{_ASKED_ANYWHERE}test_75_a_loop_may_end_when_its_question_is_put_off",
    "75w": _GRANTED,
    "79": f"{_APPROVALS}test_79_the_run_is_blocked_between_question_and_answer",
    "79w": _GRANTED,
    "80": f"{_APPROVALS}test_80_a_busy_sibling_keeps_the_run_from_being_blocked",
    "81": f"{_APPROVALS}test_81_each_answer_of_several_lets_the_run_be_blocked_anew",
    "80w": f"{_ASKED_ANYWHERE}test_80_a_busy_sibling_keeps_the_run_from_being_blocked",
    "81w": f"{_ASKED_ON_WORKERS}test_81_each_answer_of_several_lets_the_run_be_blocked_anew",
    "82": f"{_ASKED_ANYWHERE}test_82_a_hook_of_the_loop_blocks_the_run_once",
    "82w": f"{_ASKED_ANYWHERE}test_82_a_hook_of_the_loop_blocks_the_run_once",
    "83": f"{_DEFERRED}test_83_a_deferred_question_ends_the_run_blocked",
    "83w": f"{_ASKED_ANYWHERE}test_83_on_workers_a_question_waits_and_is_not_put_off",
    "84": f"{_APPROVALS}test_84_without_hooks_nothing_is_blocked",
    "84w": _SAME,
    "85": f"{_APPROVALS}test_85_a_reply_that_is_still_written_is_waited_for",
    "85w": f"{_ASKED_ANYWHERE}test_85_a_reply_that_is_still_written_is_waited_for",
    "86": f"{_ASKED_ANYWHERE}test_86_a_hook_of_a_tool_that_does_not_name_its_call_blocks_nothing",
    "86w": f"{_ASKED_ANYWHERE}test_86_a_hook_of_a_tool_that_does_not_name_its_call_blocks_nothing",
    "87": f"{_BLOCKED}test_87_before_any_reply_has_ended_nothing_is_blocked",
    "88": (
        f"{_BLOCKED}test_88_a_hook_that_opens_while_the_reply_is_written_blocks_when_the_others_"
        "settle"
    ),
    "89": f"{_BLOCKED}test_89_a_reply_that_is_asked_for_again_begins_anew",
    "90": f"{_BLOCKED}test_90_so_does_one_that_had_ended",
}

REPLIES = {
    "91": f"{LOOPS}providers/test_openai_calls.py::test_two_calls_are_two_whatever_marks_them",
    "92": f"{_FOLD}test_what_else_a_provider_says_of_a_block_stays_with_it",
    "93": f"{_STREAM}test_a_model_can_be_asked_beside_the_run",
    "94": _OF_CONTEXT_OR_MODEL,
    "95": _OF_CONTEXT_OR_MODEL,
    "96": f"{_STREAM}test_a_reply_that_is_read_to_its_end_is_not_left",
    "97": f"{_DEFERRED}test_97_of_a_turn_that_is_gone_on_with_only_the_calls_are_shown_again",
    "97w": f"{WORKER}test_open_turn.py::test_a_recorded_turn_is_replayed_without_asking_anybody",
    "98": f"{_DEFERRED}test_98_a_reply_that_calls_nothing_is_no_turn_to_go_on_with",
    "98w": (
        f"{_ANYWHERE}test_98_a_reply_that_ends_a_history_does_not_keep_a_model_from_being_asked"
    ),
    "99w": f"{_ASKED_ON_WORKERS}test_99_what_is_shown_again_after_a_wait_is_not_told_again",
    "100w": f"{_HYDRATED}test_100_a_loop_may_tell_a_stored_reply_anywhere",
    "99": f"{_DEFERRED}test_99_that_an_event_is_shown_again_is_never_sent",
    "100": f"{_HYDRATED}test_100_a_stored_reply_is_told_again_whole",
    "103": f"{_HYDRATED}test_103_a_reply_can_be_asked_for_whole",
    "104": f"{_HYDRATED}test_104_a_context_can_be_stored",
    **dict.fromkeys(
        ["105", "106"],
        f"{_HYDRATED}test_105_106_messages_are_made_again_from_what_a_log_holds",
    ),
    **dict.fromkeys(
        ["107", "108", "109"],
        f"{_HYDRATED}test_107_to_109_whatever_a_provider_says_is_made_again",
    ),
    "110": f"{_HYDRATED}test_110_before_anything_is_fed_there_is_nothing",
    "111": f"{_HYDRATED}test_111_what_was_there_before_stays_as_it_is",
    "112": f"{_HYDRATED}test_112_an_event_carries_the_message_that_it_is_part_of",
    **dict.fromkeys(
        ["113", "114"],
        f"{_HYDRATED}test_113_114_a_reply_that_is_asked_again_leaves_nothing_behind",
    ),
    "115": f"{_HYDRATED}test_115_where_nothing_was_said_nothing_is_forgotten",
    "101": (
        f"{LOOPS}test_model.py::test_a_reply_without_an_end_is_incomplete_and_may_be_asked_again"
    ),
    "102": f"{_STREAM}test_leaving_early_makes_the_turn_of_what_was_seen",
}

MERGING = {
    "116": f"{_UTIL}test_all_items_of_all_sources_come",
    "117": f"{_MERGING}test_117_sources_wait_side_by_side",
    "118": f"{_UTIL}test_an_error_comes_bare_after_the_items_before_it",
    "119": f"{_UTIL}test_no_source_runs_ahead_of_the_reader",
    "120": f"{_BUFFER}test_a_source_is_ahead_by_the_size_at_most",
    "121": f"{_BUFFER}test_an_error_comes_once_after_the_items_before_it",
    "122": f"{_UTIL}test_sources_are_closed_in_their_own_surroundings",
    "123": f"{_MERGING}test_123_what_is_told_in_between_comes_before_the_next_item",
    "124": f"{_UTIL}test_a_source_that_got_something_new_is_iterated_again",
    "125": f"{_MERGING}test_125_what_the_end_of_a_program_finds_open_is_closed_where_it_ran",
}

HISTORIES = {
    "history: fit": f"{_HISTORY}test_a_fit_history_is_left_alone",
    "history: twice": f"{_HISTORY}test_a_repaired_history_is_fit",
    "history: input": f"{_HISTORY}test_repairing_changes_nothing_that_it_was_given",
    "history: arguments": f"{_FOLD}test_arguments_that_are_no_object_leave_the_history_valid",
    "history: no result": _MENDED,
    "history: some results": f"{_HISTORY}test_only_the_missing_results_are_made_up",
    "history: orphans and twins": _MENDED,
    "history: all issues": (
        f"{AGENTS}test_histories.py::test_all_that_is_wrong_is_told_also_where_ids_are_broken"
    ),
}

DEFECTS = {
    "D1": f"{_APPROVALS}test_d1_a_sibling_that_ends_before_the_reply_does_blocks_all_the_same",
    "D2": f"{_DEFERRED}test_d2_a_run_that_came_to_its_end_is_not_blocked",
    "D3": f"{_ASKED}test_73_an_answer_is_held_against_its_type_at_once",
    "D4": f"{_STREAM_OF_AGENT}test_a_loop_that_says_it_was_cancelled_does_not_hang_its_reader",
    "D5": f"{_DEFERRED}test_d5_what_was_granted_and_done_is_not_asked_again_when_the_rest_is",
    "D6": f"{_APPROVALS}test_d6_a_cancelled_approval_leaves_its_call_one_result",
    "D7": f"{_DEFERRED}test_d7_a_hook_of_an_ordinary_tool_can_be_deferred_too",
    "D9": f"{_PERFORM}test_arguments_that_do_not_fit_are_an_error_with_the_real_problem",
    "D12": f"{_DEFERRED}test_d12_a_history_that_claims_an_approval_grants_nothing",
    "D13": f"{LOOPS}providers/test_anthropic.py::test_no_key_is_shown",
    "D14": f"{LOOPS}test_bound_call.py::test_a_call_of_an_unknown_tool_is_an_error_result",
    "D15": f"{LOOPS}test_wire.py::test_what_stays_in_memory_is_not_sent",
}
"""The faults that the cases' origin has, and that are not here."""

FAILURES = {
    "C177": f"{_ASKED_ON_WORKERS}test_of_two_who_answer_at_one_time_one_is_refused",
    "C178": f"{_ASKED_ON_WORKERS}test_an_approval_outlives_the_worker",
    "C180": f"{_ASKED_ON_WORKERS}test_what_was_done_before_the_question_is_not_done_again_after_it",
    "C181": f"{WORKER}test_conflicts.py::"
    "test_behind_a_run_that_waits_for_somebody_nobody_waits_unasked",
    "C182": f"{_ASKED_ON_WORKERS}test_what_was_granted_for_other_arguments_is_asked_again",
    "C184": f"{_ASKED_ON_WORKERS}test_a_run_that_waits_holds_no_slot",
    "C193": f"{_DEFERRED}test_d12_a_history_that_claims_an_approval_grants_nothing",
}
"""What people have met who wait for people, elsewhere, and what happens here."""

CASES: dict[str, str] = {
    **LOOP,
    **TOOLS,
    **HOOKS,
    **REPLIES,
    **MERGING,
    **HISTORIES,
    **DEFECTS,
    **FAILURES,
}
"""The file and the name of the test of each case."""


def _numbers(first: int, last: int, mark: str = "") -> list[str]:
    return [f"{number}{mark}" for number in range(first, last + 1)]


LATER: dict[str, str] = {
    **dict.fromkeys(["10", "11", "13", "14", *_numbers(76, 78)], "there are no spans"),
    "history: internal": "there is no role that is kept from models",
}
"""The cases that are not tested, and why not."""

ON_WORKERS = [
    *("1", "2", "3", "4", "9"),
    *(*_numbers(17, 20), *_numbers(24, 26), *_numbers(32, 46), "66", "67", "69"),
    *(*_numbers(71, 75), *_numbers(79, 86), *_numbers(97, 100)),
]
"""The cases that are to hold on workers as well."""

ALL: set[str] = {*_numbers(1, 125), *(f"{number}w" for number in ON_WORKERS)}
"""Every number that has to be in one of the two tables."""
