"""The gates themselves: a count that rises fails, one that falls asks for a record, and the inner
loop is found in disassembled code."""
import bounds
import check_counts
import inner_loops

DISASSEMBLY = """
0000000000000010 <void octavo::kernels::(anonymous namespace)::tile<octavo::kernels::(anonymous namespace)::Simd, 2>(long, std::byte const*)>:
  10:\tpush   %rbp
  11:\tmov    %rsp,%rbp
  20:\tvmovups (%rdi),%zmm1
  24:\tprefetcht0 (%rax)
  28:\tadd    $0x40,%rax
  2c:\tcmp    %rax,%rbx
  30:\tjne    24 <void octavo::tile<2>(long)+0x14>
  34:\tvpdpbusd (%rsi){1to16},%zmm1,%zmm0
  38:\tvpdpbusd 0x4(%rsi){1to16},%zmm1,%zmm2
  3c:\tvmovaps %zmm2,-0x50(%rbp)
  40:\tvmovups %zmm0,(%rdx)
  44:\tdec    %rcx
  48:\tjne    20 <void octavo::tile<2>(long)+0x10>
  4c:\tjmp    10 <void octavo::tile<2>(long)>
  50:\tret

0000000000000060 <octavo::kernels::other(int)>:
  60:\tvpdpbusd %zmm1,%zmm1,%zmm0
  64:\tret
"""


def test_judges():
    assert bounds.judge(105, 100) == "ok"
    assert bounds.judge(105.1, 100) == "worse"
    assert bounds.judge(90, 100) == "ok"
    assert bounds.judge(89, 100) == "better"
    assert bounds.judge(0.1, 0, 0.0) == "worse"
    assert bounds.judge(0, 0) == "ok"


def compare(measured, recorded):
    return bounds.compare({n: {"v": v} for n, v in measured.items()},
                          {n: {"v": v} for n, v in recorded.items()},
                          lambda entry: {"v": (entry["v"], 0.05)})


def test_a_rise_fails_and_a_fall_asks_for_a_record():
    lines, passed, failed = compare({"a": 110, "b": 50, "c": 100}, {"a": 100, "b": 100, "c": 100})
    assert (passed, failed) == (2, 1)
    assert lines[0] == "FAILED a: v 110 (bound 100)"
    assert "--record" in lines[1] and lines[2].strip() == "b: v 50 (bound 100)"


def test_what_has_gone_or_has_no_bound_fails():
    lines, passed, failed = compare({"new": 1}, {"gone": 1})
    assert (passed, failed) == (0, 2)
    assert "gone: recorded, and not there any more" in lines[0] and "new: has no bound" in lines[1]


def test_inner_loop_is_the_shortest_with_the_arithmetic():
    functions = inner_loops.functions_of(DISASSEMBLY)
    code = functions["tile<Simd, 2>"]
    loop = inner_loops.inner_loop(code, "vpdpbusd")
    assert [hex(loop[0][0]), hex(loop[-1][0])] == ["0x20", "0x48"]
    kinds = inner_loops.count_kinds(loop, "vpdpbusd", inner_loops.uses_frame(code))
    assert kinds == {"all": 11, "arithmetic": 2, "loads": 3, "spills": 1}
    assert inner_loops.per_arithmetic(kinds) == {"all": 5.5, "loads": 1.5, "spills": 0.5}


def test_code_without_the_loop():
    functions = inner_loops.functions_of(DISASSEMBLY)
    assert inner_loops.inner_loop(functions["other"], "vpdpbusd") is None
    assert inner_loops.inner_loop(functions["tile<Simd, 2>"], "vfmadd") is None


def test_reads_callgrind_dumps(tmp_path):
    (tmp_path / "counts.1").write_text("desc: Trigger: Client Request: step_64\nsummary: 0\n"
                                       "0 5\ntotals: 123\n")
    (tmp_path / "counts").write_text("desc: Trigger: Program termination\ntotals: 0\n")
    (tmp_path / "counts.2").write_text("cut off")
    assert check_counts.totals_of(tmp_path) == {"step_64": 123}


def test_every_bound_is_recorded():
    recorded = bounds.load()
    assert set(recorded["inner_loops"]) == {tile for _, tile, _ in inner_loops.TILES}
    assert recorded["compiler"] and len(recorded["paths"]) > 20
