"""Function-call tasks made offline: they can be solved, only by the right calls, and hostile tools do no harm."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestra_train import cli
from orchestra_train.toolscale.checks import golden_error, golden_solver, idle_solves, judge, score
from orchestra_train.toolscale.domain_words import DOMAINS
from orchestra_train.toolscale.environment import Domain, Environment
from orchestra_train.toolscale.operations import ToolError, run_tool, state_hash
from orchestra_train.toolscale.records import make_domain
from orchestra_train.toolscale.tasks import make_tasks

MADE = {words.name: (domain := make_domain(words, 3), make_tasks(words, domain, 12, 3)) for words in DOMAINS}
CHANGING = ("cancel", "change", "set", "update", "transfer")


def all_tasks():
    return [(domain, task) for domain, tasks in MADE.values() for task in tasks]


def test_ten_domains_hold_solvable_tasks():
    assert len(MADE) == 10
    assert len({task["id"] for _, task in all_tasks()}) == 120
    for domain, task in all_tasks():
        assert not golden_error(domain, task)
        assert score(domain, task, *golden_solver(domain, task)) == 1
        assert not idle_solves(domain, task)


def test_leaving_out_any_golden_call_or_fact_fails():
    for domain, task in all_tasks():
        calls, facts = golden_solver(domain, task)
        for left_out in range(len(calls)):
            fewer = [*calls[:left_out], *calls[left_out + 1 :]]
            verdict = judge(domain, task, fewer, facts)
            assert not verdict.completeness or calls[left_out] in fewer
        assert not judge(domain, task, calls, ["Done."]).process


def test_one_change_too_many_fails_the_state_alone():
    domain, tasks = MADE["railway"]
    task = tasks[0]
    calls, facts = golden_solver(domain, task)
    someone = next(iter(domain.database["passengers"]))
    extra = {"name": "update_passenger_email", "arguments": {"passenger_id": someone, "email": "other@example.org"}}
    verdict = judge(domain, task, [*calls, extra], facts)
    assert (verdict.execution, verdict.process, verdict.completeness) == (False, True, True)


def test_failed_and_looking_calls_do_no_harm():
    domain, tasks = MADE["travel"]
    calls, facts = golden_solver(domain, tasks[0])
    stray = [
        {"name": "get_tour", "arguments": {"tour_id": "nowhere"}},
        {"name": "list_tours_by_country", "arguments": {"country": "Peru"}},
        {"name": "delete_everything", "arguments": {}},
    ]
    assert score(domain, tasks[0], [*stray, *calls], facts) == 1


def test_facts_count_whatever_their_case_and_commas():
    domain, tasks = MADE["finance"]
    task = {
        **tasks[0],
        "evaluation_criteria": {**tasks[0]["evaluation_criteria"], "communicate_info": ["1,234.50 Euro"]},
    }
    calls, _ = golden_solver(domain, task)
    assert judge(domain, task, calls, ["That makes 1234.50 EURO"]).process


def test_seeds_decide_everything():
    words = DOMAINS[0]
    again = make_domain(words, 3)
    assert make_tasks(words, again, 12, 3) == MADE[words.name][1]
    assert make_tasks(words, again, 12, 4) != MADE[words.name][1]


def test_tasks_of_two_wishes_need_more_calls():
    lengths = {level: [] for level in range(4)}
    for _, task in all_tasks():
        lengths[task["level"]].append(len(task["evaluation_criteria"]["actions"]))
    plain, _, *harder = (sum(found) / len(found) for found in lengths.values())
    assert all(mean > plain for mean in harder)


def test_every_changing_tool_changes_the_state_and_no_other_does():
    for domain, tasks in MADE.values():
        for task in tasks:
            environment = Environment(domain)
            for call in task["evaluation_criteria"]["actions"]:
                before = environment.hash()
                environment.call(call["name"], call["arguments"])
                looks = call["name"].startswith(("get_", "find_", "list_", "total_", "cheapest_"))
                assert (environment.hash() == before) == looks, call["name"]


def test_functions_are_told_as_a_chat_completion_takes_them():
    function = MADE["medicine"][0].functions()[0]["function"]
    assert function["parameters"]["required"] == list(function["parameters"]["properties"])


TABLE = {"rows": {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 2}}}


def tool(*steps, returns="done", **parameters):
    types = {name: {"type": kind, "description": ""} for name, kind in parameters.items()}
    return {"name": "try", "description": "", "parameters": types, "steps": list(steps), "returns": returns}


def test_a_call_that_fails_late_leaves_nothing_behind():
    database = json.loads(json.dumps(TABLE))
    steps = [
        {"do": "change", "table": "rows", "id": "a", "field": "n", "value": 9},
        {"do": "remove", "table": "rows", "id": "b"},
        {"do": "insert", "table": "rows", "record": {"n": 5}, "into": "made"},
        {"do": "require", "left": 1, "test": "==", "right": 2, "otherwise": "no"},
    ]
    with pytest.raises(ToolError, match="no"):
        run_tool(tool(*steps), database, {})
    assert state_hash(database) == state_hash(TABLE)


@pytest.mark.parametrize(
    "step",
    [
        {"do": "exec", "table": "rows", "id": "a"},
        {"do": "get", "table": "__class__", "id": "a", "into": "x"},
        {"do": "change", "table": "rows", "id": "a", "field": "n", "value": {"product": [1e200, 1e200]}},
        {"do": "change", "table": "rows", "id": "a", "field": "n", "value": 10**400},
        {"do": "change", "table": "rows", "id": "a", "field": "n", "value": {"product": [10**400, 0.5]}},
        {"do": "change", "table": "rows", "id": "a", "field": "n", "value": "$row"},
        {"do": "require", "left": "$__builtins__", "test": "==", "right": 1, "otherwise": ""},
        {"do": "rows", "table": "rows", "where": [["n", "import", 1]], "into": "x"},
        {"do": "rows", "table": "rows", "where": "all", "into": "x"},
        {},
    ],
)
def test_hostile_steps_end_as_errors_and_change_nothing(step):
    database = json.loads(json.dumps(TABLE))
    look = {"do": "get", "table": "rows", "id": "a", "into": "row"}
    with pytest.raises(ToolError):
        run_tool(tool(look, step), database, {})
    assert database == TABLE


@pytest.mark.parametrize(
    "arguments", [{}, {"n": "1"}, {"n": True}, {"n": 10**13}, {"n": 10**400}, {"n": 1, "m": 2}, {"n": None}]
)
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(ToolError):
        run_tool(tool(n="integer"), {}, arguments)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["do", "sum", "count", "total", "x"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(json_values, max_size=3), json_values)
def test_whatever_a_model_writes_a_call_returns_json_or_an_error(steps, returns):
    database = json.loads(json.dumps(TABLE))
    try:
        json.dumps(run_tool({**tool(), "steps": steps, "returns": returns}, database, {}))
    except ToolError:
        assert database == TABLE


def test_whole_and_fractional_spellings_of_a_number_are_the_same_state():
    assert state_hash({"t": {"a": {"n": 1}}}) == state_hash({"t": {"a": {"n": 1.0}}})


def test_the_command_writes_a_folder_and_scores_runs_of_it(tmp_path, monkeypatch, capsys):
    data, runs = tmp_path / "data", tmp_path / "runs.jsonl"
    monkeypatch.setattr(sys, "argv", ["orchestra-train", "toolscale", "--out", str(data), "--tasks", "2"])
    cli.main()
    tasks = [json.loads(line) for line in (data / "tasks.jsonl").read_text().splitlines()]
    assert len(tasks) == 20
    lines = []
    for number, task in enumerate(tasks):
        calls, facts = golden_solver(Domain("", "", (), {}), task)
        lines.append(json.dumps({"task": task["id"], "calls": calls if number % 2 else [], "messages": facts}))
    runs.write_text("\n".join(lines))
    monkeypatch.setattr(sys, "argv", ["orchestra-train", "toolscale-score", "--data", str(data), "--runs", str(runs)])
    capsys.readouterr()
    cli.main()
    found = json.loads(capsys.readouterr().out)
    assert found["all"]["runs"] == 20
    assert found["all"]["solved"] == 0.5
    assert found["all"]["process"] == 1
