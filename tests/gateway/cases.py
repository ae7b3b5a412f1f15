"""Where the cases of the callbacks' behaviour are tested: by number, `d` for what the document says
and its origin does not do, `b` for its faults.

The numbers are those of the list that the cases were restated from. Where ours behaves otherwise on
purpose, the test says what ours does.
"""

GATEWAY, WORKER = "tests/gateway/", "tests/worker/"


def _in(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{name}" for name in names)


_COMPRESSION = f"{GATEWAY}test_compression.py"
_ENTRIES = f"{WORKER}test_callback_entries.py"
_FAULTS = f"{GATEWAY}test_faults_not_copied.py"
_FOLDS = f"{GATEWAY}test_folds.py"
_METHODS = f"{GATEWAY}test_callback_methods.py"
_NEIGHBOURS = f"{GATEWAY}test_neighbours.py"
_PLANS = f"{GATEWAY}test_plans.py"
_RELAY = f"{GATEWAY}test_relay.py"
_SAFETY = f"{GATEWAY}test_loop_safety.py"
_SEARCH = f"{GATEWAY}test_web_search_callback.py"
_SHIPPED = f"{GATEWAY}test_shipped_callbacks.py"
_TRANSLATING = f"{GATEWAY}test_translating.py"
_VIEWS = f"{GATEWAY}test_views.py"
_WORKERS = f"{GATEWAY}test_on_workers.py"


def _each(first: int, last: int, tests: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the cases from the first to the last, which the same tests show."""
    return {str(number): tests for number in range(first, last + 1)}


_ONCE = _in(_FAULTS, "a_plan_that_repeats_what_was_asked_says_it_once")
_PRECEDENCE = _in(_PLANS, "what_a_patch_names_goes_before_its_params_and_these_before_its_kwargs")
_REFUSED = _in(_SAFETY, "a_refusal_leaves_no_call_as_the_last_thing")
_SAME = _in(_SAFETY, "the_same_calls_with_fresh_ids_end_the_turn")

LOOP = {
    "1": _in(_SAFETY, "nothing_of_the_loop_reaches_the_provider")
    + _in(_PLANS, "what_is_ours_never_leaves_and_cannot_be_forged"),
    "2": _in(_METHODS, "where_no_gate_takes_anything_up_the_reply_stays_word_for_word"),
    "3": _in(_SAFETY, "the_depth_is_told_from_the_first_round_on")
    + _in(_METHODS, "the_cleanup_is_called_once_however_the_round_after_it_ends")
    + _in(_PLANS, "a_patchs_messages_take_the_place_of_all"),
    # Ours ends the turn, also where the older original raises.
    "4": _in(_SAFETY, "a_model_is_asked_again_three_times_and_no_more") + _REFUSED,
    "5": _SAME,
    "6": _ONCE,
    "7": _PRECEDENCE,
    "8": _ONCE,
    "9": _ONCE,
    "10": _in(
        _SAFETY,
        "the_depth_is_told_from_the_first_round_on",
        "a_deployment_may_say_how_often",
    ),
    "11": _in(_SAFETY, "the_order_of_members_makes_no_other_call"),
    "12": _SAME,
    "13": _SAME + _in(_SAFETY, "calls_that_were_made_two_rounds_ago_end_the_turn_too"),
    # No callback is told a key: what is asked again is asked of the same deployment without it.
    "14": _in(_METHODS, "no_key_and_no_address_is_told_to_a_callback"),
    # No stream is turned into something else and back.
    "15": _in(_SHIPPED, "a_search_is_answered_whoever_asks_however"),
    "16": _in(_PLANS, "an_end_takes_the_calls_that_were_taken_up_out_of_the_answer"),
    "17": _ONCE,
    "18": _PRECEDENCE + _ONCE,
}

LIMITS = {
    "19": _REFUSED,
    "20": _REFUSED,
    "21": _in(_SHIPPED, "a_search_that_is_refused_keeps_the_text_and_the_blocks"),
    "22": _in(_SAFETY, "a_turn_that_is_nothing_but_a_refused_call_ends_cleanly"),
    "23": _in(_SAFETY, "a_refused_turn_is_never_built_and_its_earlier_plans_are_finished"),
    "24": _in(_SAFETY, "a_body_without_its_calls_is_another_one"),
    "25": _SAME,
    "26": _in(_SAFETY, "a_refusal_leaves_the_clients_calls"),
    "27": _in(_SAFETY, "of_a_tools_calls_only_those_that_were_named_are_taken_out"),
    "28": _in(_SAFETY, "a_call_that_is_named_without_an_id_is_taken_out_by_its_name"),
    # Ours ends a stream as it ends a body.
    "29": _REFUSED,
    "31": _in(_RELAY, "a_row_that_is_no_object_breaks_the_reply"),
    "32": _in(_SHIPPED, "a_search_that_is_refused_keeps_the_text_and_the_blocks"),
    "33": _in(_SAFETY, "a_deployment_may_say_how_often"),
    "34": _in(_SAFETY, "a_refusal_has_a_type_that_says_why"),
    "35": _in(_SAFETY, "a_refusal_has_a_type_that_says_why", "a_refusal_stands_in_the_log"),
    "36": _in(_SHIPPED, "a_search_that_is_refused_keeps_the_text_and_the_blocks"),
    "37": _in(_ENTRIES, "a_limit_that_is_whole_is_carried_to_the_deployment")
    + _in(_SAFETY, "a_deployment_may_say_how_often"),
    "38": _in(_ENTRIES, "a_limit_that_is_whole_is_carried_to_the_deployment"),
    "39": _in(_ENTRIES, "a_limit_that_is_none_is_refused_by_its_models_name"),
    "40": _in(_ENTRIES, "a_limit_that_is_none_is_refused_by_its_models_name"),
    "41": _in(_ENTRIES, "a_limit_that_is_whole_is_carried_to_the_deployment"),
    "42": _in(_SEARCH, "the_limit_of_rounds_goes_with_the_tool_alone"),
    "43": _in(_SAFETY, "a_deployments_limit_goes_before_that_of_the_shipped_search"),
    "44": _in(_SAFETY, "a_model_is_asked_again_three_times_and_no_more"),
    "45": _in(_SAFETY, "a_whole_number_is_one_however_it_is_written"),
    **_each(
        46,
        52,
        _in(
            _ENTRIES,
            "a_limit_that_is_none_is_refused_by_its_models_name",
            "a_limit_that_is_whole_is_carried_to_the_deployment",
        )
        + _in(_SAFETY, "a_limit_that_is_none_is_refused_before_anything_is_asked"),
    ),
    **_each(
        53,
        56,
        _in(_FOLDS, "a_message_comes_back_from_its_rows")
        + _in(_SHIPPED, "a_search_that_is_refused_keeps_the_text_and_the_blocks"),
    ),
}

_ROOM = _in(_SEARCH, "a_reply_has_room_beside_what_the_model_thinks")
_NATIVE = _in(_SEARCH, "a_web_search_of_a_request_becomes_the_one_tool") + _in(
    _SEARCH, "a_clients_own_tool_is_left_alone"
)
_BLOCKS = _in(_SEARCH, "who_asked_for_the_providers_own_search_sees_its_blocks")
_USAGE = _in(_SHIPPED, "a_streamed_search_says_what_all_of_it_has_taken")
_THOUGHT = _in(_SHIPPED, "what_the_model_thought_stands_before_its_search")
_BACK = _in(_TRANSLATING, "thinking_is_put_back_before_the_calls_that_follow_it")

SEARCH = {
    **_each(62, 67, _in(_PLANS, "an_override_is_the_answer_whatever_its_shape")),
    "68": _USAGE,
    "69": _in(_PLANS, "whether_it_streams_is_the_callers_to_say"),
    "70": _USAGE,
    "71": _USAGE,
    "72": _ONCE,
    "73": _ONCE,
    "74": _in(_METHODS, "a_legacy_method_gives_the_answer_itself_or_passes"),
    "75": _PRECEDENCE,
    "76": _ROOM,
    "77": _ROOM,
    "78": _ROOM,
    # The client's own limit stays.
    "79": _in(_FAULTS, "d7_b1_the_limit_of_a_reply_is_the_plans_or_else_the_clients"),
    "80": _ROOM,
    **_each(81, 85, _ROOM),
    "86": _in(_PLANS, "what_a_plan_does_not_name_stays_as_it_was_asked"),
    "87": _in(_PLANS, "what_is_ours_never_leaves_and_cannot_be_forged"),
    "88": _in(_METHODS, "the_cleanup_is_called_once_however_the_round_after_it_ends"),
    "89": _in(_SEARCH, "whatever_a_search_does_the_model_is_told")
    + _in(_SHIPPED, "a_search_that_fails_is_told_to_the_model_of_who_knows_no_native_search"),
    "90": _THOUGHT,
    "91": _THOUGHT + _BACK,
    "92": _in(_TRANSLATING, "thinking_is_put_nowhere_else"),
    "93": _in(_TRANSLATING, "thinking_is_put_nowhere_else"),
    "94": _in(_PLANS, "what_a_chats_model_thought_is_told_again_with_its_calls"),
    "95": _BACK,
    "96": _in(_SEARCH, "a_search_is_answered_after_what_the_model_thought_and_said"),
    "97": _in(_TRANSLATING, "thinking_is_put_nowhere_else"),
    "98": _in(_TRANSLATING, "thinking_is_put_nowhere_else"),
    "99": _in(_SEARCH, "a_search_of_a_chat_completion_is_answered_in_its_shape"),
    "100": _in(_SEARCH, "its_own_calls_alone_are_taken_up"),
    "101": _in(_SEARCH, "only_the_named_vendors_models_get_the_tool"),
    "102": _in(_SEARCH, "a_search_of_a_chat_completion_is_answered_in_its_shape"),
    **_each(103, 109, _NATIVE),
    "110": _BLOCKS,
    "111": _in(_SHIPPED, "where_every_search_fails_the_turn_ends_with_the_reason"),
    "112": _in(_SEARCH, "when_every_search_fails_a_native_turn_ends"),
    "113": _BLOCKS,
    "114": _in(_SEARCH, "who_asked_for_the_tool_by_its_name_sees_no_blocks"),
    "115": _BLOCKS,
    "116": _in(_SEARCH, "who_asked_for_the_tool_by_its_name_sees_no_blocks"),
    "117": _in(_SHIPPED, "who_asked_for_the_providers_own_search_gets_its_blocks_first"),
    "118": _in(_SEARCH, "who_asked_for_the_tool_by_its_name_sees_no_blocks"),
    "119": _in(_SEARCH, "an_answer_that_is_an_object_gets_the_blocks_too"),
    "141": _in(
        _ENTRIES,
        "the_web_is_searched_by_a_function_beside_the_file",
        "a_search_that_is_no_function_ends_the_start",
    ),
    "142": _in(_SEARCH, "its_own_calls_alone_are_taken_up"),
    "143": _in(_SAFETY, "nothing_of_the_loop_reaches_the_provider"),
}

COMPRESSION = {
    "144": _in(_ENTRIES, "a_shipped_callback_has_two_names_and_two_places")
    + _in(_ENTRIES, "a_shipped_callback_can_be_switched_off"),
    "145": _in(
        _COMPRESSION,
        "a_long_result_is_shortened_to_its_beginning_its_length_and_a_key",
        "another_process_finds_the_text_in_the_callers_request",
    ),
    "146": _in(
        _COMPRESSION,
        "a_small_request_is_left_alone_where_a_trigger_says_so",
        "what_is_not_to_be_shortened_is_left_alone",
    ),
    "147": _in(_COMPRESSION, "its_own_calls_alone_are_taken_up"),
    "148": _in(_SHIPPED, "a_long_result_is_shortened_and_read_on_demand"),
    "149": _in(_SHIPPED, "a_long_result_is_shortened_and_read_on_demand"),
    "150": _in(_COMPRESSION, "a_key_that_is_none_is_said"),
}

_FOLDED = _in(
    _FOLDS,
    "a_message_is_folded_block_by_block",
    "arguments_are_read_when_their_block_ends",
    "what_is_not_known_is_kept",
    "a_message_comes_back_from_its_rows",
)

STREAMS = {
    # The rows are read, and broken ones end the reply, where they come from the provider.
    **_each(
        151,
        154,
        _in(
            _RELAY,
            "the_rows_of_a_provider_of_the_protocol_are_its_own",
            "a_row_that_is_no_object_breaks_the_reply",
        ),
    ),
    **_each(155, 166, _FOLDED),
    **_each(167, 168, _in(_METHODS, "a_reply_of_nothing_is_no_callbacks_business")),
    **_each(169, 171, _FOLDED),
    "172": _in(_VIEWS, "in_the_compatible_mode_every_row_passes_as_it_comes"),
    "173": _in(_FAULTS, "d1_a_gate_may_look_at_a_reply_in_any_way"),
    "174": _in(_FAULTS, "d9_b12_whatever_the_provider_speaks_a_reply_is_the_callers"),
    "175": _in(_PLANS, "an_override_is_the_answer_whatever_its_shape"),
    # A failure is told: it is not kept from the caller.
    "176": _in(
        _METHODS,
        "a_builder_that_fails_in_a_live_stream_ends_it_with_an_error",
        "a_gate_that_does_not_answer_right_is_logged_and_skipped",
    ),
    "177": _in(_METHODS, "a_reply_of_nothing_is_no_callbacks_business"),
    "178": _in(_METHODS, "every_method_is_told_whether_the_caller_streams"),
    "179": _in(_SHIPPED, "who_asked_for_the_providers_own_search_gets_its_blocks_first"),
    "180": _in(_SHIPPED, "who_asked_for_the_providers_own_search_gets_its_blocks_first"),
    "181": _in(_FOLDS, "a_message_comes_back_from_its_rows"),
    "182": _in(_WORKERS, "a_caller_who_leaves_ends_the_run_and_the_providers_work")
    + _in(_RELAY, "the_connection_is_closed_with_the_reply"),
}

DOCUMENT = {
    "d1": _in(_FAULTS, "d1_a_gate_may_look_at_a_reply_in_any_way"),
    "d2": _in(_FAULTS, "d2_a_generic_gate_and_a_chats_builder_run_on_chat")
    + _in(_METHODS, "which_gate_leads_to_which_builder"),
    "d3": _in(_FAULTS, "d3_b9_an_end_has_no_call_on_either_endpoint")
    + _in(_PLANS, "an_end_takes_the_calls_that_were_taken_up_out_of_the_answer"),
    "d4": _in(_FAULTS, "d4_the_same_calls_end_a_turn_whole") + _REFUSED,
    "d5": _in(_FAULTS, "d5_the_server_side_says_how_often_for_one_call")
    + _in(
        _SAFETY,
        "a_patch_may_say_it_for_the_rest_of_the_call",
        "in_one_process_a_keyword_says_it",
        "a_client_cannot_say_what_is_not_his_to_say",
    ),
    "d6": _in(_FAULTS, "d6_the_depth_is_0_in_the_first_round"),
    "d7": _in(_FAULTS, "d7_b1_the_limit_of_a_reply_is_the_plans_or_else_the_clients"),
    "d8": _in(_FAULTS, "d8_b5_a_stream_is_one_message_where_it_is_to_be_one"),
    "d9": _in(_FAULTS, "d9_b12_whatever_the_provider_speaks_a_reply_is_the_callers"),
}
"""What the document says, and its origin does otherwise."""

FAULTS = {
    "b1": _in(_FAULTS, "d7_b1_the_limit_of_a_reply_is_the_plans_or_else_the_clients"),
    "b2": DOCUMENT["d1"],
    "b3": DOCUMENT["d2"],
    "b4": _in(_FAULTS, "b4_a_forced_tool_is_not_forced_again")
    + _in(_PLANS, "a_tool_that_was_answered_is_not_forced_again"),
    "b5": _in(
        _FAULTS,
        "d8_b5_a_stream_is_one_message_where_it_is_to_be_one",
        "b5_an_end_in_a_live_stream_repeats_no_text",
    )
    + _in(_VIEWS, "a_call_that_was_taken_up_is_never_the_last_thing_shown"),
    "b6": _in(_FAULTS, "b6_a_reply_that_was_cut_is_no_callbacks_business")
    + _in(_WORKERS, "a_provider_that_breaks_off_in_a_live_stream_ends_it_with_an_error"),
    "b7": _in(_FAULTS, "b7_all_rounds_are_one_answer_that_says_what_all_have_cost")
    + _in(_NEIGHBOURS, "a_success_is_logged_once_for_all_rounds")
    + _in(_WORKERS, "what_all_rounds_have_cost_is_told_and_recorded"),
    "b8": _in(_FAULTS, "b8_the_cleanup_is_called_on_both_endpoints"),
    "b9": DOCUMENT["d3"],
    "b10": _in(_FAULTS, "b10_a_clients_own_call_beside_ours_reaches_it")
    + _in(_PLANS, "a_reply_with_calls_of_both_kinds_loses_none"),
    "b11": _in(_FAULTS, "b11_fresh_ids_do_not_hide_that_a_call_is_the_same"),
    "b12": DOCUMENT["d9"],
    "b13": _in(_FAULTS, "b13_a_plans_model_is_one_of_the_configuration")
    + _in(_PLANS, "a_model_that_nobody_configured_is_refused_with_a_text"),
    "b14": _in(_FAULTS, "b14_no_callback_is_told_the_key_of_a_provider")
    + _in(_METHODS, "no_key_and_no_address_is_told_to_a_callback"),
}
"""The faults that the cases' origin has, and that are not here."""

CASES: dict[str, tuple[str, ...]] = {
    **LOOP,
    **LIMITS,
    **SEARCH,
    **COMPRESSION,
    **STREAMS,
    **DOCUMENT,
    **FAULTS,
}
"""The files and the names of the tests of each case."""

LEFT_OUT: dict[str, str] = {
    "30": "the surface of responses is not served",
    **{
        str(number): "no stream is turned into a body and back: no flag says when it is"
        for number in range(57, 62)
    },
    **{
        str(number): "the model says what is searched for: no search goes past it"
        for number in (*range(120, 123), *range(124, 141))
    },
    "123": "the shipped search has one way of answering, that of its plan",
}
"""The cases that are not tested, and why not."""

ALL: set[str] = {
    *(str(number) for number in range(1, 183)),
    *(f"d{number}" for number in range(1, 10)),
    *(f"b{number}" for number in range(1, 15)),
}
"""Every number that has to be in one of the two tables."""
