"""Methods of LLM other than generate()."""

import json

import reprise.metrics as metrics
from reprise import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)


def counters(llm):
    return {metric.name: metric.value for metric in llm.get_metrics() if isinstance(metric, metrics.Counter) and "finished_reason" not in metric.labels}


def test_metrics_count_what_was_generated(llm):
    before = counters(llm)
    answer = llm.generate("Anna has", GREEDY, use_tqdm=False)[0]
    after = counters(llm)
    assert after["vllm:generation_tokens"] - before["vllm:generation_tokens"] == 8
    assert after["vllm:prompt_tokens"] - before["vllm:prompt_tokens"] == len(answer.prompt_token_ids)
    histograms = {metric.name: metric for metric in llm.get_metrics() if isinstance(metric, metrics.Histogram)}
    latency = histograms["vllm:e2e_request_latency_seconds"]
    assert latency.count == latency.buckets["+Inf"] > 0 and latency.sum > 0
    assert list(latency.buckets.values()) == sorted(latency.buckets.values())
    gauges = {metric.name: metric.value for metric in llm.get_metrics() if isinstance(metric, metrics.Gauge)}
    assert gauges["vllm:num_requests_running"] == 0
    assert all("model_name" in metric.labels for metric in llm.get_metrics())


def test_a_reset_cache_finds_nothing(llm):
    prompt = {"prompt_token_ids": llm.get_tokenizer().encode("Anna has three apples and two pears. " * 6)}
    for _ in range(2):
        llm.generate(prompt, GREEDY, use_tqdm=False)
    hits = counters(llm)["vllm:prefix_cache_hits"]
    assert hits > 0
    assert llm.reset_prefix_cache()
    llm.generate(prompt, GREEDY, use_tqdm=False)
    assert counters(llm)["vllm:prefix_cache_hits"] == hits


def test_a_profile_is_a_trace_of_the_steps(llm, tmp_path):
    assert llm.stop_profile(tmp_path) is None
    llm.start_profile()
    llm.generate("Anna has", GREEDY, use_tqdm=False)
    path = llm.stop_profile(tmp_path)
    with open(path, encoding="utf-8") as file:
        assert len(json.load(file)["traceEvents"]) > 0


def test_template_options_reach_the_template(llm, apples):
    tokenizer = llm.get_tokenizer()
    opened = tokenizer.apply_chat_template(apples, tokenize=False, add_generation_prompt=True)
    closed = tokenizer.apply_chat_template(apples, tokenize=False)
    assert opened.startswith(closed) and opened != closed
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]
    plain, with_tools = (llm.chat(apples, GREEDY, use_tqdm=False, tools=given, chat_template_kwargs={"unused": 1})[0] for given in (None, tools))
    assert plain.prompt == opened
    assert ("look_up" in with_tools.prompt) == ("tools" in template(llm))


def test_a_chat_takes_what_the_server_takes(llm):
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "reasoning": "why", "tool_calls": [call]},
    ]
    shows = (
        "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for part in m.content %}({{ part.text }}){% endfor %}{% endif %}{{ m.reasoning_content }}"
        "{% for c in m.tool_calls or [] %}<{{ c.function.arguments.a }}>{% endfor %}{% endfor %}"
    )
    for form, text in ((None, "[user](a)(b)[assistant]why<1>"), ("string", "[user]a\nb[assistant]why<1>")):
        answer = llm.chat(turns, GREEDY, use_tqdm=False, chat_template=shows, chat_template_content_format=form)[0]
        assert answer.prompt == text


def template(llm):
    with open(f"{llm._model}/tokenizer_config.json", encoding="utf-8") as file:
        return json.load(file).get("chat_template", "")
