import loops as ai


def test_a_loop_is_written_with_the_names_of_the_package_alone() -> None:
    names = ("Agent", "Context", "ToolRunner", "stream", "tool", "util", "events", "App")

    assert set(names) <= set(ai.__all__)
    assert callable(ai.stream)
    assert callable(ai.util.merge)
    assert ai.events.ToolEnd.type == "call.finished"


def test_every_public_thing_says_what_a_caller_must_know() -> None:
    public = [getattr(ai, name) for name in ai.__all__]

    assert [each for each in public if callable(each) and not each.__doc__] == []
