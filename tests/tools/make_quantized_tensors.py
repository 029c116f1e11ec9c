#!/usr/bin/env python3
"""Make tests/golden/quantized: small quantised modules and their values, by the formats' own tools.

    python3 -m venv V && V/bin/pip install torch compressed-tensors==0.20.1 transformers==5.24.0
    V/bin/pip install --no-deps autoawq==0.2.9 defuser
    BUILD_CUDA_EXT=0 V/bin/pip install --no-deps --no-build-isolation gptqmodel==7.7.0
    V/bin/pip install accelerate datasets device-smi logbar tokenicer pypcre threadpoolctl
    V/bin/python tests/tools/make_quantized_tensors.py tests/golden/quantized

Each file NAME.safetensors holds the tensors of one module "m" of NUM_ROWS outputs and NUM_COLS
inputs, packed by the tool, and `values` [NUM_ROWS, NUM_COLS] F32, what the tool's own unpacker
makes of them with its scales widened to float32 first, so that nothing is rounded. NAME.json is
what config.json would say of it. (AutoAWQ packs outputs by 32, so its modules have twice as many.)
"""
import json
import os
import pathlib
import sys

os.environ["GPTQ_TORCH_TRITON_DEQUANT"] = "0"
import torch
from safetensors.torch import save_file

NUM_ROWS, NUM_COLS = 16, 128


def weight(seed=0, rows=NUM_ROWS, cols=NUM_COLS):
    torch.manual_seed(seed)
    return torch.randn(rows, cols) * torch.logspace(-1.5, 0.5, rows)[:, None] + 0.05


def ranges(values, bits, symmetric):
    """Scale and zero point of the last dimension: what a quantiser would find."""
    top = 2**bits - 1
    if symmetric:
        scale = values.abs().amax(-1) * 2 / top
        return scale, torch.full_like(scale, (top + 1) // 2)
    low, high = values.amin(-1).clamp(max=0), values.amax(-1).clamp(min=0)
    scale = (high - low) / top
    return scale, (-low / scale).round().clamp(1, top)


def gptq(bits, group, symmetric, act_order, version):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import (convert_gptq_v1_to_v2_format_module,
                                       convert_gptq_v2_to_v1_format_module)
    w = weight(1)
    order = torch.randperm(NUM_COLS) if act_order else torch.arange(NUM_COLS)
    g_idx = torch.empty(NUM_COLS, dtype=torch.int32)
    g_idx[order] = torch.arange(NUM_COLS, dtype=torch.int32) // group
    grouped = w[:, order].reshape(NUM_ROWS, -1, group)
    scales, zeros = ranges(grouped, bits, symmetric)
    scales = scales.half().float()  # as the file has them
    linear = torch.nn.Linear(NUM_COLS, NUM_ROWS, bias=False)
    linear.weight.data = w
    module = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=act_order,
                         in_features=NUM_COLS, out_features=NUM_ROWS)
    module.pack_original(linear, scales, zeros, g_idx)
    module.optimize = lambda *_, **__: None  # not compiled: it runs once
    module.post_init()
    packer = type("Config", (), {"bits": bits, "pack_dtype": torch.int32})
    if version == 1:
        convert_gptq_v2_to_v1_format_module(module, packer)
    tensors = {"m." + name: getattr(module, name).clone()
               for name in ("qweight", "qzeros", "scales", "g_idx")}
    if version == 1:
        convert_gptq_v1_to_v2_format_module(module, bits, torch.int32)
    module.scales = module.scales.float()
    module.eval()
    values = module.dequantize_weight().T
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric,
              "desc_act": act_order, "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    return tensors, values, config


def awq(group):
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm
    rows = 2 * NUM_ROWS
    w = weight(2, rows)
    scales, zeros = ranges(w.reshape(rows, -1, group), 4, False)
    scales = scales.half().float()
    # AutoAWQ packs a weight that is already rounded.
    q = (w.reshape(rows, -1, group) / scales[..., None]).round() + zeros[..., None]
    q = q.clamp(0, 15)
    linear = torch.nn.Linear(NUM_COLS, rows, bias=False)
    linear.weight.data = ((q - zeros[..., None]) * scales[..., None]).reshape(rows, NUM_COLS)
    module = WQLinear_GEMM.from_linear(linear.half(), 4, group, scales=scales.T.contiguous().half(),
                                       zeros=zeros.T.contiguous())
    tensors = {"m." + name: getattr(module, name).clone()
               for name in ("qweight", "qzeros", "scales")}
    values = dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), 4, group).T
    return tensors, values, {"quant_method": "awq", "bits": 4, "group_size": group,
                             "zero_point": True, "version": "gemm"}


def compressed(fmt, scale_dtype=torch.bfloat16, act_order=False, **args):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams
    args = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    w = weight(3)
    strategy = str(getattr(args.strategy, "value", args.strategy))
    g_idx = None
    if strategy == "group":
        columns = w
        if act_order:
            order = torch.randperm(NUM_COLS)
            g_idx = torch.empty(NUM_COLS, dtype=torch.int32)
            g_idx[order] = torch.arange(NUM_COLS, dtype=torch.int32) // args.group_size
            columns = w[:, order]
        parts = columns.reshape(NUM_ROWS, -1, args.group_size)
        low, high = parts.amin(-1), parts.amax(-1)
    elif strategy == "channel":
        low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    elif strategy == "block":
        r, c = args.block_structure
        parts = w.reshape(NUM_ROWS // r, r, NUM_COLS // c, c)
        low, high = parts.amin((1, 3)), parts.amax((1, 3))
    else:
        low, high = w.min().reshape(1), w.max().reshape(1)
    scale, zero = calculate_qparams(low, high, args)
    state = {"weight": w, "weight_scale": scale.to(scale_dtype), "weight_zero_point": zero}
    if g_idx is not None:
        state["weight_g_idx"] = g_idx
    compressor = BaseCompressor.get_value_from_registry(fmt)
    packed = compressor.compress(state, scheme)
    tensors = {"m." + name: value.clone() for name, value in packed.items()}
    wide = dict(packed, weight_scale=packed["weight_scale"].float())
    values = compressor.decompress(wide, scheme)["weight"].float()
    group = json.loads(scheme.model_dump_json(exclude_none=True))
    return tensors, values, {"quant_method": "compressed-tensors", "format": fmt,
                             "quantization_status": "compressed",
                             "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


def fp8(block):
    """As DeepSeek's files; the formula of transformers' Fp8Dequantize, run by it."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    w = weight(4)
    config = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    if block:
        r, c = block
        rows, cols = -(-NUM_ROWS // r), -(-NUM_COLS // c)
        padded = torch.zeros(rows * r, cols * c)
        padded[:NUM_ROWS, :NUM_COLS] = w
        scale = padded.reshape(rows, r, cols, c).abs().amax((1, 3)) / 448
        config["weight_block_size"] = list(block)
        spread = scale.repeat_interleave(r, 0)[:NUM_ROWS].repeat_interleave(c, 1)[:, :NUM_COLS]
    else:
        scale = w.abs().max() / 448
        spread = scale
    codes = (w / spread).to(torch.float8_e4m3fn)
    name = "m.weight_scale_inv" if block else "m.weight_scale"
    tensors = {"m.weight": codes, name: scale.float()}
    if block:
        out = Fp8Dequantize(None).convert({"weight": codes, "weight_scale_inv": scale.float()})
        values = out["weight"]
        if values.dtype != torch.float32:
            sys.exit("Fp8Dequantize rounded")
    else:
        values = codes.float() * scale
    return tensors, values, config


CASES = {
    "gptq-4-v1": lambda: gptq(4, 64, True, False, 1),
    "gptq-4-v1-asymmetric": lambda: gptq(4, 32, False, False, 1),
    "gptq-4-v2-asymmetric": lambda: gptq(4, 128, False, False, 2),
    "gptq-4-v1-act-order": lambda: gptq(4, 32, False, True, 1),
    "gptq-8-v1": lambda: gptq(8, 128, True, False, 1),
    "gptq-8-v2-act-order": lambda: gptq(8, 64, False, True, 2),
    "awq-64": lambda: awq(64),
    "awq-128": lambda: awq(128),
    "ct-int4-group": lambda: compressed("pack-quantized", num_bits=4, type="int", symmetric=True,
                                        strategy="group", group_size=64),
    "ct-int4-group-asymmetric": lambda: compressed(
        "pack-quantized", num_bits=4, type="int", symmetric=False, strategy="group", group_size=32),
    "ct-int4-channel-f32": lambda: compressed(
        "pack-quantized", torch.float32, num_bits=4, type="int", symmetric=True,
        strategy="channel"),
    "ct-int8-pack-group": lambda: compressed(
        "pack-quantized", num_bits=8, type="int", symmetric=True, strategy="group",
        group_size=128),
    "ct-int8-channel": lambda: compressed("int-quantized", num_bits=8, type="int", symmetric=True,
                                          strategy="channel"),
    "ct-int8-channel-asymmetric": lambda: compressed(
        "int-quantized", num_bits=8, type="int", symmetric=False, strategy="channel"),
    "ct-int8-tensor": lambda: compressed("naive-quantized", num_bits=8, type="int", symmetric=True,
                                         strategy="tensor"),
    "ct-f8-channel": lambda: compressed("float-quantized", num_bits=8, type="float", symmetric=True,
                                        strategy="channel"),
    "ct-f8-tensor": lambda: compressed("naive-quantized", num_bits=8, type="float", symmetric=True,
                                       strategy="tensor"),
    "ct-f8-block": lambda: compressed("float-quantized", num_bits=8, type="float", symmetric=True,
                                      strategy="block", block_structure=[8, 64]),
    "fp8-block": lambda: fp8((8, 32)),
    "fp8-tensor": lambda: fp8(None),
}


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, make in CASES.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        tensors, values, config = make()
        tensors = {k: v.contiguous() for k, v in tensors.items()}
        tensors["values"] = values.detach().float().contiguous()
        save_file(tensors, out / f"{name}.safetensors")
        (out / f"{name}.safetensors").chmod(0o644)
        text = json.dumps({"quantization_config": config}, indent=1) + "\n"
        (out / f"{name}.json").write_text(text)
        print(name, {k: (str(v.dtype)[6:], list(v.shape)) for k, v in tensors.items()})


if __name__ == "__main__":
    main()
