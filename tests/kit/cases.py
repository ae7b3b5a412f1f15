"""Where the cases of the kit's behaviour are tested: by number, and `w` for the known weaknesses.

The numbers are those of the list that the cases were restated from. Where ours behaves otherwise on
purpose, the test says what ours does.
"""

KIT, LOOPS, PROVIDERS = "tests/kit/", "tests/loops/", "tests/loops/providers/"


def _in(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{file}::test_{name}" for name in names)


_ANYWHERE = f"{KIT}test_anywhere.py"
_BASH = f"{KIT}test_bash.py"
_COMPACT = f"{KIT}test_compact.py"
_CUTTING = f"{KIT}test_cutting.py"
_DISPATCH = f"{KIT}test_dispatch.py"
_EDITOR = f"{KIT}test_editor.py"
_ESTIMATE = f"{KIT}test_estimate.py"
_FETCH = f"{KIT}test_web_fetch.py"
_FILES = f"{KIT}test_file_store.py"
_FOLDING = f"{KIT}test_folding.py"
_FOREIGN = f"{KIT}test_foreign.py"
_FORM = "tests/api/test_kit_form.py"
_HISTORY = f"{LOOPS}test_history.py"
_LIMITS = f"{KIT}test_limits.py"
_LLM = f"{KIT}test_llm.py"
_LOOP = f"{KIT}test_default_loop.py"
_RETRIES = f"{KIT}test_retries.py"
_SEARCH = f"{KIT}test_web_search.py"
_SESSION = f"{KIT}test_session.py"
_SHOWN = f"{KIT}test_shown.py"
_STORES = f"{KIT}test_stores.py"
_STUBS = f"{KIT}test_stubs.py"
_UNWINDING = f"{KIT}test_unwinding.py"
_WORKSPACE = f"{KIT}test_workspace.py"
_OPENAI_CALLS = f"{PROVIDERS}test_openai_calls.py"
_OPENAI_CASES = f"{PROVIDERS}test_openai_cases.py"
_OPENAI_REQUEST = f"{PROVIDERS}test_openai_request.py"
_OPENAI_USAGE = f"{PROVIDERS}test_openai_usage.py"
_THINKING = f"{PROVIDERS}test_thinking.py"

LOOP = {
    "1": _in(_LOOP, "two_rounds_of_tools_leave_all_six_messages"),
    "2": _in(_LOOP, "what_came_before_a_failure_is_kept"),
    "3": _in(
        _LOOP,
        "the_call_is_kept_before_it_is_carried_out",
        "what_is_said_is_kept_before_any_model_is_asked",
    ),
    "4": _in(_LOOP, "a_call_without_what_it_needs_is_told_to_the_model"),
    "5": _in(_LOOP, "a_call_that_takes_too_long_has_one_result_that_says_so"),
    "6": _in(_LOOP, "calls_of_one_reply_are_carried_out_side_by_side_and_each_is_answered"),
    "7": _in(_LOOP, "a_session_without_a_name_is_kept_nowhere"),
    "8": _in(_RETRIES, "what_no_repetition_helps_is_raised_at_once"),
    "9": _in(_LOOP, "a_reply_that_is_cut_off_is_gone_on_with"),
    "10": _in(_LOOP, "a_reply_that_is_cut_off_again_and_again_is_left_at_that"),
    "11": _in(_LOOP, "a_reply_that_is_paused_is_asked_for_again"),
    "12": _in(_FOLDING, "a_reply_without_room_is_not_kept_and_asked_for_again"),
    "13": _in(_FOLDING, "a_talk_that_the_model_has_no_room_for_is_summed_up_once"),
    "14": _in(
        _RETRIES,
        "a_busy_model_is_asked_again_until_it_answers",
        "a_model_that_stays_busy_is_asked_again_ten_times_ever_more_rarely",
        "each_wait_is_told_as_one_step",
    ),
    "15": _in(_RETRIES, "whether_asking_again_may_help"),
    # No tool of ours asks or suggests, but any may be the last of a run, or be called once.
    "16": _in(_LOOP, "a_tool_may_be_the_last_of_a_run"),
    "17": _in(_LOOP, "a_last_tool_that_fails_is_answered_by_the_model"),
    "18": _in(_LOOP, "of_two_calls_of_a_tool_that_is_called_once_the_second_is_refused"),
    "20": _in(
        _DISPATCH,
        "where_nobody_can_answer_the_card_ends_the_run_and_the_next_one_is_granted",
        "a_person_is_asked_before_something_is_destroyed",
        "what_a_person_does_not_grant_is_not_done",
    ),
    "21": _in(_DISPATCH, "a_key_is_that_of_the_call_however_it_is_explained"),
    "22": _in(
        _DISPATCH,
        "a_tool_may_say_what_the_model_and_what_the_reader_is_told",
        "what_the_reader_is_told_may_be_left_out",
    ),
    "23": _in(
        _LOOP,
        "the_tools_of_a_server_are_offered_and_called_and_shown_as_details",
        "a_server_that_is_not_there_is_told_and_the_run_goes_on",
    ),
    "24": _in(_LOOP, "the_result_of_a_tool_with_details_is_shown_with_its_step_only"),
    "27": _in(_LOOP, "each_call_of_a_tool_is_a_row_of_the_log"),
}

COMPACTION = {
    "30": _in(
        _FOLDING,
        "what_comes_near_the_window_is_summed_up_before_the_next_question",
        "a_short_talk_is_left_alone",
    ),
    "31": _in(
        _COMPACT,
        "the_old_part_becomes_a_summary_and_the_rest_stays",
        "the_summary_is_found_in_the_reply",
        "the_model_is_asked_with_all_that_the_loop_asks_with",
    )
    + _in(_FOLDING, "the_summary_is_asked_with_all_that_the_loop_asks_with"),
    "32": _in(_COMPACT, "without_a_summary_the_old_part_is_dropped")
    + _in(_FOLDING, "a_summary_that_fails_is_told_and_the_run_goes_on"),
    "33": _in(_FOLDING, "the_whole_talk_is_kept_and_the_next_run_begins_with_the_summary"),
    "34": _in(_FOLDING, "a_run_that_ends_near_the_window_is_summed_up_at_its_end"),
    "35": _in(
        _CUTTING,
        "a_history_is_cut_at_what_a_user_said_or_else_at_a_reply",
        "no_cut_parts_a_call_from_the_result_that_is_its_own",
    ),
    "36": _in(
        _COMPACT,
        "the_files_are_told_in_the_order_in_which_they_were_seen",
        "a_summary_is_summed_up_with_what_came_after_it",
    ),
    "37": _in(_FOLDING, "old_results_are_cleared_before_anything_is_summed_up")
    + _in(_STUBS, "only_long_texts_among_arguments_become_a_line", "results_of_skills_stay_whole"),
    "38": _in(
        _FOLDING,
        "after_a_long_pause_old_results_are_cleared_at_once",
        "after_a_short_pause_nothing_is_cleared",
    ),
}

SESSIONS = {
    # Ours is answered where theirs is erased.
    "39": _in(
        _SESSION,
        "a_call_whose_result_is_lost_is_told_as_one_that_may_have_happened",
        "a_reader_changes_nothing",
    ),
    "40": _in(
        _SESSION,
        "a_whole_history_is_told_as_it_is",
        "a_call_whose_result_is_lost_is_told_as_one_that_may_have_happened",
    ),
    "41": _in(
        _SESSION,
        "of_a_history_with_a_bad_end_the_rest_is_told_as_it_is",
        "a_new_session_is_empty",
    ),
    "42": _in(_SESSION, "whoever_reads_in_the_middle_of_a_run_moves_nothing"),
    "43": _in(_SESSION, "of_two_runs_at_one_place_the_second_is_refused")
    + _in(_STORES, "a_taken_place_is_refused_to_another_message"),
    "44": _in(_SESSION, "a_checkpoint_that_was_cancelled_is_made_up_for_in_the_right_place")
    + _in(_STORES, "an_append_may_be_tried_again"),
    "45": _in(
        _SESSION,
        "what_a_person_said_is_kept_when_adding_it_returns",
        "what_stands_beside_a_message_is_kept_and_no_model_is_told",
    ),
    "46": _in(
        _SESSION,
        "a_rollback_drops_what_was_not_kept_and_nothing_a_person_said",
        "a_session_without_a_name_ends_with_its_run",
    ),
    "47": _in(_SESSION, "each_reply_says_what_it_has_cost"),
    "48": _in(_SESSION, "what_stands_beside_a_message_is_kept_and_no_model_is_told"),
    "50": _in(
        _HISTORY,
        "a_fit_history_is_left_alone",
        "a_broken_history_is_mended",
        "only_the_missing_results_are_made_up",
        "a_repaired_history_keeps_the_pairing_law",
        "a_repaired_history_is_fit",
        "repairing_changes_nothing_that_it_was_given",
    ),
    # Nothing is projected: a session is shown as it is. What is left is how a reply is shown.
    "51": _in(
        _SHOWN,
        "a_search_of_the_service_is_a_step_by_its_name_and_its_sources",
        "what_is_no_list_of_pages_has_no_sources",
        "a_round_of_a_loop_is_shown_in_its_order",
    ),
}

BUILDING = {
    "52": _in(
        _LLM,
        "each_word_gives_a_new_agent_and_leaves_the_old_one",
        "what_nobody_says_is_as_usual",
        "tools_replace_and_servers_and_handlers_add_up",
        "prices_are_said_by_name",
        "a_loop_of_ones_own_is_asked_and_its_turn_taken_out",
    )
    + _in(_DISPATCH, "a_step_is_shown_by_its_label"),
    "53": _in(
        _LLM,
        "tools_are_those_that_are_allowed_in_their_order",
        "tools_of_ones_own_take_one_form",
        "who_searches_hangs_on_the_model_and_the_key",
    ),
    "54": _in(
        _WORKSPACE,
        "a_path_means_a_place_in_the_workspace",
        "a_path_that_leaves_the_workspace_is_refused",
    ),
    "55": _in(
        _FETCH,
        "a_page_is_told_with_its_url_its_title_and_its_text",
        "a_redirect_to_the_same_name_is_resolved_and_checked_again",
        "a_redirect_to_a_forbidden_place_is_not_followed",
        "a_body_of_ten_gigabytes_ends_at_two_million_bytes",
    )
    + _in(_SEARCH, "without_a_key_the_variable_is_named", "brave_is_asked_with_the_key_and_read"),
    "56": _in(
        _OPENAI_REQUEST,
        "pictures_and_documents_are_parts",
        "pictures_of_results_follow_all_results",
        "services_differ_in_their_words",
        "a_message_that_says_nothing_is_left_out",
    )
    + _in(_OPENAI_USAGE, "what_a_reply_cost_is_what_was_told_last")
    + _in(_THINKING, "each_vendor_is_told_in_its_own_words")
    + _in(_LLM, "a_picture_is_a_line_to_a_model_that_sees_none"),
    "57": _in(f"{PROVIDERS}test_anthropic_request.py", "what_stays_the_same_is_marked_at_its_end"),
    # Long results are not spilled to files: they are cut, with their true length.
    "58": _in(_SHOWN, "events_have_their_shapes", "a_reader_gets_the_very_event")
    + _in(f"{LOOPS}test_perform.py", "a_long_result_is_cut_with_its_true_length"),
    "59": _in(
        _BASH,
        "a_command_out_of_time_is_ended_with_all_that_it_started",
        "of_endless_output_the_beginning_and_the_end_are_kept",
        "the_sandbox_is_cut_off_from_everything_else",
        "the_environment_is_nothing_but_what_a_shell_needs",
    )
    + _in(
        _EDITOR,
        "a_part_of_a_text_says_how_to_go_on",
        "pictures_and_documents_are_shown_as_they_are",
        "a_text_that_does_not_stand_exactly_once_is_not_replaced",
        "lines_are_inserted_after_a_line",
        "a_file_is_made_with_the_folders_on_the_way",
    ),
    "61": _in(
        _FORM,
        "a_stream_opens_with_the_session_and_has_the_headers_of_a_stream",
        "the_whole_story_is_what_the_client_shows",
        "a_loop_that_fails_is_a_reference_and_no_detail",
    ),
}

WEAKNESSES = {
    "w1": _in(_ANYWHERE, "a_loop_of_ones_own_keeps_its_answer")
    + _in(_LLM, "a_loop_of_ones_own_is_asked_and_its_turn_taken_out"),
    "w2": _in(
        _UNWINDING,
        "results_are_kept_before_their_reader_is_shown_any",
        "what_was_not_kept_yet_when_the_run_was_cancelled_is_kept",
        "a_loop_that_is_closed_at_any_event_leaves_a_whole_session",
        "a_loop_that_is_cancelled_at_any_event_leaves_a_whole_session",
        "a_loop_that_is_cancelled_at_any_moment_leaves_a_whole_session",
    )
    + _in(_RETRIES, "what_was_shown_before_a_final_failure_is_kept"),
    "w3": _in(_SESSION, "a_call_whose_result_is_lost_is_told_as_one_that_may_have_happened")
    + _in(_UNWINDING, "the_next_run_goes_on_from_a_run_that_was_left"),
    "w4": _in(_SESSION, "a_torn_entry_keeps_no_session_from_being_opened")
    + _in(_FILES, "an_empty_file_is_an_empty_session"),
    "w5": _in(_LOOP, "edits_of_one_file_keep_their_order")
    + _in(_EDITOR, "of_changes_at_the_same_time_in_threads_none_is_lost"),
    "w6": _in(_DISPATCH, "a_tool_that_there_is_not_is_refused"),
    "w7": _in(
        _DISPATCH,
        "a_tool_that_was_not_offered_is_refused",
        "a_built_in_tool_that_nobody_offered_is_refused",
        "a_block_of_a_reply_knows_what_its_model_was_offered",
    )
    + _in(_LLM, "a_person_can_only_take_tools_away"),
    "w8": _in(
        _DISPATCH,
        "whatever_the_block_there_is_an_answer",
        "whatever_the_arguments_there_is_an_answer",
        "whatever_a_handler_raises_is_its_answer",
        "a_handler_is_any_function_of_the_arguments",
    ),
    "w9": _in(_LOOP, "a_reply_that_says_it_calls_and_does_not_is_the_last")
    + _in(_RETRIES, "a_provider_that_never_ends_its_reply_is_at_fault_and_not_asked_again"),
    "w10": _in(
        _OPENAI_CALLS,
        "whole_calls_are_carried_out_whatever_the_reason",
        "calls_that_are_marked_badly_are_told_apart",
    )
    + _in(
        _OPENAI_CASES,
        "a_reply_without_a_reason_and_an_end_is_incomplete",
        "a_reply_that_is_declined_is_an_error_of_its_own",
    )
    + _in(_OPENAI_REQUEST, "what_the_model_thought_is_told_to_who_wants_it")
    + _in(_LOOP, "a_call_is_carried_out_whatever_the_reply_says_of_its_end")
    + _in(_DISPATCH, "arguments_that_are_no_object_are_told_to_the_model"),
    "w11": _in(_LOOP, "a_run_without_a_session_is_told_all_that_it_was_given"),
    "w12": _in(
        _RETRIES,
        "a_service_says_how_long_to_wait",
        "a_service_says_until_when_to_wait",
        "a_connection_that_breaks_is_made_again",
        "a_real_service_that_fails_is_asked_again_after_a_wait",
        "a_port_of_ours_is_not_asked_more_often_than_that",
    ),
    "w13": _in(
        _RETRIES,
        "a_request_that_is_too_long_is_not_sent_again_for_the_digits_in_its_refusal",
    ),
    "w14": _in(
        _FOLDING,
        "the_window_that_a_refusal_names_is_known_to_later_runs",
        "what_does_not_fit_after_one_summary_is_summed_up_shorter",
        "what_nothing_makes_shorter_is_a_failure_that_says_so",
    ),
    "w15": _in(
        _FOLDING,
        "whatever_the_window_there_is_room_before_it_is_full",
        "a_talk_in_a_small_window_is_not_summed_up_before_each_question",
        "a_talk_in_a_small_window_can_be_summed_up",
    ),
    "w16": _in(
        _LOOP,
        "a_reply_without_text_at_the_limit_of_a_new_session_is_not_gone_on_with",
    ),
    "w17": _in(
        _RETRIES,
        "what_was_shown_of_a_reply_that_broke_off_is_voided",
        "where_nothing_was_shown_nothing_is_voided",
    ),
    "w18": _in(
        _LIMITS,
        "a_run_takes_as_many_replies_as_it_may",
        "a_run_costs_as_much_as_it_may",
        "the_same_calls_in_a_row_are_refused_and_then_end_the_run",
    )
    + _in(
        _DISPATCH,
        "a_tool_that_takes_too_long_is_left",
        "no_more_calls_of_a_tool_run_at_one_time_than_may",
    ),
    "w19": _in(_RETRIES, "signs_of_life_come_while_a_model_is_waited_for")
    + _in(
        _LOOP,
        "signs_of_life_come_while_a_tool_takes_long",
        "signs_of_life_come_while_the_model_thinks_about_its_first_word",
    )
    + _in(_FOLDING, "signs_of_life_come_while_a_summary_is_written"),
    "w20": _in(
        _BASH,
        "a_command_tells_what_it_wrote_and_how_it_ended",
        "what_a_command_leaves_running_is_ended",
        "a_model_can_ask_for_less_time_but_not_for_more",
    )
    + _in(_DISPATCH, "a_command_has_no_more_time_than_it_may_have"),
    "w21": _in(
        _ESTIMATE,
        "a_text_is_weighed_by_its_script",
        "a_picture_counts_the_same_whatever_its_size",
    )
    + _in(_FOLDING, "talks_in_other_scripts_are_summed_up_in_time"),
    "w22": _in(_LOOP, "a_title_is_asked_for_and_counted")
    + _in(_FOLDING, "what_a_summary_costs_is_logged_and_counted"),
    "w23": _in(_THINKING, "each_model_of_anthropic_is_told_as_it_takes_it")
    + _in(_LLM, "the_address_the_key_and_the_headers_are_the_programs"),
    "w24": _in(_LOOP, "calls_of_one_reply_are_carried_out_side_by_side_and_each_is_answered")
    + _in(_OPENAI_REQUEST, "a_failure_is_told_as_one"),
    "w25": _in(_LOOP, "the_models_instructions_are_the_programs_and_nothing_else")
    + _in(_DISPATCH, "labels_are_each_agents_own"),
    "w26": _in(_FORM, "a_reader_goes_on_after_any_event_and_shows_the_same_in_the_end"),
    "w27": _in(
        _DISPATCH,
        "what_a_command_may_do_is_told_by_its_words",
        "a_tool_of_ones_own_may_ask_a_person",
    ),
    "w28": _in(_SESSION, "a_session_of_tool_rounds_is_cut_at_a_place_that_there_is")
    + _in(_STUBS, "a_marker_never_points_past_the_history"),
}
"""The faults that the cases' origin has, and that are not here."""

CASES: dict[str, tuple[str, ...]] = {
    **LOOP,
    **COMPACTION,
    **SESSIONS,
    **BUILDING,
    **WEAKNESSES,
}
"""The files and the names of the tests of each case."""

LEFT_OUT: dict[str, str] = {
    "19": "no tool of ours asks a person, so there is no guidance for one",
    "25": "there are no connectors: servers are told to the agent, with their keys",
    "26": "there are no connectors whose tools are looked up first",
    "28": "no file of a workspace becomes part of the instructions: the program says them",
    "29": "there are no skills",
    "49": "a session only grows: nothing of it is taken back or said anew in its place",
    "60": "there is no tool that is a data base",
    "62": "it is the other product's own client",
}
"""The cases that are not tested, and why not."""

ALL: set[str] = {
    *(str(number) for number in range(1, 63)),
    *(f"w{number}" for number in range(1, 29)),
}
"""Every number that has to be in one of the two tables."""
