"""The pipeline against a server on loopback that replies as models do, now and then with rubbish."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from orchestra_train import cli
from orchestra_train.toolscale.checks import golden_solver, score
from orchestra_train.toolscale.dataset import load_domains, load_tasks, save_domain, save_tasks
from orchestra_train.toolscale.endpoint import BudgetSpent, Endpoint, EndpointFailed
from orchestra_train.toolscale.model_output import Malformed, json_in, record_in, schema_in, task_in, tool_in
from orchestra_train.toolscale.pipeline import Pipeline, PipelineShape
from orchestra_train.toolscale.task_pool import open_pools

SCHEMA = {
    "members": {"id": "string", "name": "string", "loans": "integer"},
    "books": {"id": "string", "title": "string", "copies": "integer"},
}
GET = {
    "name": "get_book",
    "description": "One book.",
    "parameters": {"book_id": {"type": "string", "description": "its id"}},
    "steps": [{"do": "get", "table": "books", "id": "$book_id", "into": "book"}],
    "returns": "$book",
}
LEND = {
    "name": "lend_book",
    "description": "Lends a book to a member.",
    "parameters": {"member_id": {"type": "string"}, "book_id": {"type": "string"}},
    "steps": [
        {"do": "get", "table": "members", "id": "$member_id", "into": "member"},
        {"do": "get", "table": "books", "id": "$book_id", "into": "book"},
        {"do": "require", "left": "$book.copies", "test": ">", "right": 0, "otherwise": "no copy is left"},
        {
            "do": "change",
            "table": "books",
            "id": "$book_id",
            "field": "copies",
            "value": {"difference": ["$book.copies", 1]},
        },
        {
            "do": "change",
            "table": "members",
            "id": "$member_id",
            "field": "loans",
            "value": {"sum": ["$member.loans", 1]},
        },
    ],
    "returns": {"loans": "$member.loans"},
}
HOSTILE = {**GET, "name": "wipe", "steps": [{"do": "exec", "code": "import os; os.remove('/tmp/x')"}]}
RECORDS = {
    "members": [{"id": "m1", "name": "Ida", "loans": 0}, {"id": "m2", "name": "Jo"}],
    "books": [{"id": "b1", "title": "Tides", "copies": 2}, {"id": "b2", "title": "Moss", "copies": "many"}],
}


def task(book="b1", member="m1", facts=("1",), actions=True, words="Lend me"):
    call = {"name": "lend_book", "arguments": {"member_id": member, "book_id": book}}
    scenario = {
        "reason_for_call": f"{words} {book} for {member}.",
        "known_info": "",
        "unknown_info": "",
        "task_instructions": "",
    }
    return {
        "user_scenario": scenario,
        "actions": [call] if actions else [],
        "communicate_info": list(facts),
        "nl_assertions": [],
    }


INTENTS = ["borrow a book", "borrow what is not there", "ask for nothing", "borrow the impossible"]


def model(body):
    """A model that knows the library, and speaks as models do."""
    last = body["messages"][-1]
    prompt = body["messages"][0]["content"]
    if body.get("tools"):
        if last["role"] == "tool":
            return {"content": f"You now have {json.loads(last['content']).get('loans')} loan."}
        asked = body["messages"][1]["content"].split()
        if asked[0] == "Impossible":
            return {"content": "I would rather not."}
        arguments = json.dumps({"member_id": asked[4].strip("."), "book_id": asked[2]})
        calls = [{"id": "c1", "type": "function", "function": {"name": "lend_book", "arguments": arguments}}]
        return {"content": None, "tool_calls": calls}
    stage = prompt.split("Stage: ")[1].split(".")[0]
    replies = {
        "schema": f"Here it is:\n```json\n{json.dumps(SCHEMA)}\n```",
        "subjects": json.dumps(["poetry", "maps"]),
        "database": json.dumps(RECORDS),
        "tools": f"```\n{json.dumps([GET, LEND, HOSTILE, 'no tool', {**GET, 'name': 'x', 'steps': []}])}\n```",
        "intents": json.dumps(INTENTS),
        "task": json.dumps(
            task()
            if "borrow a book" in prompt
            else task("b9")
            if "not there" in prompt
            else task(actions=False)
            if "nothing" in prompt
            else task(words="Impossible to")
        ),
        "evolution": "I am sorry, but I cannot do that.",
    }
    return {"content": replies[stage]}


class Server(ThreadingHTTPServer):
    """`script(body, number)` gives a message, a status, raw bytes, or None for silence."""

    def __init__(self, script=lambda body, number: model(body)):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.bodies, self.keys = script, [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["authorization"])
        reply = self.server.script(body, len(self.server.bodies))
        if reply is None:
            time.sleep(1.5)
            return
        status = reply if isinstance(reply, int) else 200
        usage = {"prompt_tokens": 1000, "completion_tokens": 500}
        raw = (
            reply
            if isinstance(reply, bytes)
            else json.dumps({"choices": [{"message": reply}], "usage": usage}).encode()
        )
        self.send_response(status)
        if status == 302:
            self.send_header("location", "http://127.0.0.1:1/v1/chat/completions")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(*script):
        servers.append(Server(*script))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def endpoint(server, folder, **more):
    told = {"max_cost_usd": 10.0, "price_in": 1.0, "price_out": 2.0, "timeout_s": 5, "pause_s": 0.01, **more}
    return Endpoint(server.url, "m", folder / "replies.jsonl", **told)


SHAPE = PipelineShape(subjects=2, tool_samples=1, attempts=2)


def run(server, folder, **more):
    pipeline = Pipeline(endpoint(server, folder, **more), SHAPE)
    domain = pipeline.make_domain("library")
    return pipeline, domain, list(pipeline.make_tasks(domain))


def test_what_fits_becomes_a_domain_with_solvable_tasks_and_what_does_not_is_counted(serve, tmp_path):
    pipeline, domain, tasks = run(serve(), tmp_path)
    assert [tool["name"] for tool in domain.tools] == ["get_book", "lend_book"]
    assert set(domain.database["books"]) == {"b1"}
    assert [task["user_scenario"]["instructions"]["reason_for_call"] for task in tasks] == ["Lend me b1 for m1."]
    assert score(domain, tasks[0], *golden_solver(domain, tasks[0])) == 1
    assert dict(pipeline.counts) == {
        "database: malformed record": 4,
        "tools: malformed tool": 3,
        "tasks: golden error": 2,
        "tasks: unsolved": 1,
        "tasks: kept": 1,
        "evolution: malformed": 12,
        "evolution: given up": 4,
    }


def test_a_run_that_is_started_again_asks_and_pays_nothing_twice(serve, tmp_path):
    server = serve()
    first, _, tasks = run(server, tmp_path)
    asked = len(server.bodies)
    with (tmp_path / "replies.jsonl").open("a") as log:
        log.write('{"id": "cut off by a kill')
    again, _, same = run(server, tmp_path)
    assert len(server.bodies) == asked
    assert (same, again.endpoint.spent_nano) == (tasks, first.endpoint.spent_nano)
    assert first.endpoint.spent_nano == asked * (1000 * 1000 + 500 * 2000)


def test_the_budget_holds_and_more_money_goes_on(serve, tmp_path):
    server = serve()
    with pytest.raises(BudgetSpent):
        run(server, tmp_path, max_cost_usd=0.03)
    spent = endpoint(server, tmp_path).spent_nano
    assert 0 < spent <= 30_000_000
    asked = len(server.bodies)
    _, _, tasks = run(server, tmp_path)
    assert len(tasks) == 1
    whole = len(server.bodies)
    assert spent == asked * 2_000_000
    assert endpoint(server, tmp_path).spent_nano == whole * 2_000_000


ENDLESS = b'{"choices": [{"message": {"content": "no"}}], "usage": {"prompt_tokens": 1e999, "completion_tokens": 1}}'


@pytest.mark.parametrize("trouble", [500, 429, b"<html>", b"", b'{"choices": []}', b"[]", ENDLESS])
def test_a_server_in_passing_trouble_is_asked_again(serve, tmp_path, trouble):
    server = serve(lambda body, number: trouble if number == 1 else {"content": "yes"})
    assert endpoint(server, tmp_path).ask([{"role": "user", "content": "well?"}])["content"] == "yes"


@pytest.mark.parametrize(("trouble", "paid"), [(401, False), (302, False), (None, True)])
def test_lasting_trouble_ends_as_a_failure_without_key_or_address(serve, tmp_path, trouble, paid):
    server = serve(lambda body, number: trouble)
    asked = endpoint(server, tmp_path, key="sk-secret", timeout_s=0.3, tries=2)
    with pytest.raises(EndpointFailed) as failure:
        asked.ask([{"role": "user", "content": "well?"}])
    assert "secret" not in str(failure.value) and "127.0.0.1" not in str(failure.value)
    assert server.keys == ["Bearer sk-secret"] * 2
    # Silence may have been worked on, so it is booked at its bound.
    assert (asked.spent_nano > 0) == paid
    assert "sk-secret" not in asked.log.read_text()


def test_a_host_that_does_not_exist_costs_nothing(tmp_path):
    told = {"max_cost_usd": 10.0, "price_in": 1.0, "price_out": 2.0, "tries": 2, "pause_s": 0.01}
    asked = Endpoint("http://nowhere.invalid/v1", "m", tmp_path / "replies.jsonl", **told)
    with pytest.raises(EndpointFailed):
        asked.ask([{"role": "user", "content": "well?"}])
    assert asked.spent_nano == 0


def test_a_reply_without_usage_is_booked_at_its_bound(serve, tmp_path):
    raw = json.dumps({"choices": [{"message": {"content": "x"}}]}).encode()
    asked = endpoint(serve(lambda body, number: raw), tmp_path)
    asked.ask([{"role": "user", "content": "well?"}])
    assert asked.spent_nano > asked.most_tokens * 2000


@pytest.mark.parametrize("text", ["", "no", "{", "[" * 5000, '{"a": NaN}', "```json\n{\n```"])
def test_replies_without_json_are_malformed(text):
    with pytest.raises(Malformed):
        json_in(text)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (schema_in, {"a": {"id": "string", "n": "integer"}}),
        (schema_in, {**SCHEMA, "../x": SCHEMA["books"]}),
        (schema_in, {**SCHEMA, "x": {"id": "string", "n": ["integer"]}}),
        (lambda value: record_in(value, SCHEMA["books"]), {"id": "b", "title": "t", "copies": True}),
        (lambda value: record_in(value, SCHEMA["books"]), {"id": "b", "title": "t", "copies": 1, "more": 1}),
        (
            lambda value: tool_in(value, SCHEMA),
            {**GET, "steps": [{"do": "get", "table": "passwords", "id": "", "into": ""}]},
        ),
        (lambda value: tool_in(value, SCHEMA), {**GET, "steps": [{"do": ["get"]}]}),
        (lambda value: tool_in(value, SCHEMA), {**GET, "description": "x" * 9000}),
        (lambda value: tool_in(value, SCHEMA), {**GET, "parameters": {"a": {"type": "object"}}}),
        (lambda value: task_in(value, "library"), {**task(), "actions": [{"name": "x", "arguments": {"a": [[]]}}]}),
        (lambda value: task_in(value, "library"), {**task(), "communicate_info": [7]}),
        (lambda value: task_in(value, "library"), [task()]),
    ],
)
def test_what_does_not_fit_is_malformed(read, value):
    with pytest.raises(Malformed):
        read(value)


def test_a_solver_that_never_ends_is_stopped_and_broken_calls_are_told(serve, tmp_path):
    broken = [{"id": "1", "function": {"name": "lend_book", "arguments": "{"}}, "no call"]

    def script(body, number):
        return {"content": None, "tool_calls": broken} if body.get("tools") else model(body)

    server = serve(script)
    pipeline, _, tasks = run(server, tmp_path)
    assert tasks == []
    assert pipeline.counts["tasks: unsolved"] == 2
    turns = [body for body in server.bodies if body.get("tools")]
    assert len(turns) == 2 * SHAPE.attempts * SHAPE.most_turns
    assert turns[1]["messages"][-1]["content"] == '{"error": "the call cannot be read"}'


def test_a_solver_that_did_all_and_never_ended_has_not_solved_it(serve, tmp_path):
    def script(body, number):
        if body["messages"][-1]["role"] != "tool":
            return model(body)
        look = {"name": "get_book", "arguments": '{"book_id": "b1"}'}
        calls = [{"id": "c2", "type": "function", "function": look}]
        return {"content": "You now have 1 loan. Let me see.", "tool_calls": calls}

    pipeline, _, tasks = run(serve(script), tmp_path)
    assert tasks == []
    assert pipeline.counts["tasks: unsolved"] == 2


def test_a_task_and_its_harder_form_are_both_kept_from_training(serve, tmp_path):
    def script(body, number):
        prompt = body["messages"][0]["content"]
        if "Stage: intents." in prompt:
            return {"content": json.dumps([f"borrow a book {number}" for number in range(5)])}
        return {"content": json.dumps(task(words="Give me"))} if "Stage: evolution." in prompt else model(body)

    server = serve(script)
    _, domain, tasks = run(server, tmp_path)
    save_domain(tmp_path, domain)
    save_tasks(tmp_path, tasks)
    seen, unseen = open_pools(tmp_path)
    assert ([one["intent"] for one in seen.tasks], [one["intent"] for one in unseen.tasks]) == (
        [0, 0, 1, 1, 2, 2, 3, 3],
        [4, 4],
    )


def test_the_command_writes_what_the_scorer_reads(serve, tmp_path, monkeypatch, capsys):
    server = serve()
    monkeypatch.setenv("ORCHESTRA_TRAIN_API_KEY", "sk-secret")
    prices = ["--price-in", "1", "--price-out", "2", "--max-cost-usd", "10"]
    given = ["--endpoint", server.url, "--model", "m", "--domain", "../Library", *prices, "--attempts", "1"]
    monkeypatch.setattr(sys, "argv", ["orchestra-train", "toolscale-generate", "--out", str(tmp_path), *given])
    cli.main()
    report = json.loads(capsys.readouterr().out)
    assert (report["ending"], report["tasks"]) == ("complete", 1)
    assert [path.name for path in (tmp_path / "domains").iterdir()] == ["-library.json"]
    [(id, found)] = load_tasks(tmp_path).items()
    assert score(load_domains(tmp_path)["../Library"], found, *golden_solver(None, found)) == 1
    assert id == "../Library-0000"
    assert set(server.keys) == {"Bearer sk-secret"}
