"""GuideLLM runs against octavo and sees no error."""

import json
import os
import subprocess

import pytest


@pytest.mark.parametrize("profile", ["kind=synchronous", "kind=concurrent,streams=4",
                                     "kind=constant,rate=8"])
def test_guidellm_completes_without_errors(octavo, guidellm, tokenizer, tmp_path, profile):
    report = tmp_path / "report.json"
    done = subprocess.run(
        [guidellm, "run", "--backend", f"kind=openai_http,target=http://127.0.0.1:{octavo.port}",
         "--profile", profile, "--constraint", "kind=max_requests,count=12",
         "--tokenizer", f"kind=hf_auto,model={tokenizer}",
         "--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=32",
         "--disable-console-interactive", "--output", f"kind=json,path={report}"],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "HF_HUB_OFFLINE": "1"}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (benchmark,) = json.loads(report.read_text())["benchmarks"]
    totals = benchmark["metrics"]["request_totals"]
    assert (totals["successful"], totals["errored"], totals["incomplete"]) == (12, 0, 0)
    requests = benchmark["requests"]["successful"]
    assert len(requests) == 12
    # As many tokens as were asked for: ignore_eos and the usage chunk are understood.
    assert {request["output_metrics"]["text_tokens"] for request in requests} == {32}
