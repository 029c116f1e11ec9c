#!/usr/bin/env python3
"""Make tests/golden/quantized, or whole checkpoints, by the formats' own tools.

    python3 -m venv V && V/bin/pip install torch compressed-tensors==0.20.1 transformers==5.24.0
    V/bin/pip install --no-deps autoawq==0.2.9 defuser
    BUILD_CUDA_EXT=0 V/bin/pip install --no-deps --no-build-isolation gptqmodel==7.7.0
    V/bin/pip install accelerate datasets device-smi logbar tokenicer pypcre threadpoolctl
    V/bin/python tests/tools/make_quantized_tensors.py tests/golden/quantized
    V/bin/python tests/tools/make_quantized_tensors.py OUT --checkpoint HF_DIR --case gptq-4-v1

The first form: each file NAME.safetensors holds the tensors of one module "m" of 16 outputs and 128
inputs, packed by the tool, and `values` F32, what the tool's own unpacker makes of them with its
scales widened to float32 first, so that nothing is rounded. NAME.json is what config.json would say
of it. (AutoAWQ packs outputs by 32, so its modules have twice as many.)

The second form packs all linear layers of HF_DIR (one model.safetensors) into OUT/CASE, and writes
the same values as F32 into OUT/CASE-f32: their perplexities are to be compared. CASE is a row of
CHECKPOINTS. Scales are rounded to nearest, not calibrated: how they were found has no part in how
they are read.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys

os.environ["GPTQ_TORCH_TRITON_DEQUANT"] = "0"
import torch
from safetensors import safe_open
from safetensors.torch import save_file


def weight(seed, rows=16):
    torch.manual_seed(seed)
    return torch.randn(rows, 128) * torch.logspace(-1.5, 0.5, rows)[:, None] + 0.05


def ranges(values, bits, symmetric):
    """Scale and zero point of the last dimension: what a quantiser would find."""
    top = 2**bits - 1
    if symmetric:
        scale = values.abs().amax(-1) * 2 / top
        return scale, torch.full_like(scale, (top + 1) // 2)
    low, high = values.amin(-1).clamp(max=0), values.amax(-1).clamp(min=0)
    scale = (high - low) / top
    return scale, (-low / scale).round().clamp(1, top)  # the format "gptq" has no 0


def gptq(w, bits, group, symmetric, act_order, version):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import (convert_gptq_v1_to_v2_format_module,
                                       convert_gptq_v2_to_v1_format_module)
    rows, cols = w.shape
    order = w.norm(dim=0).argsort(descending=True) if act_order else torch.arange(cols)
    g_idx = torch.empty(cols, dtype=torch.int32)
    g_idx[order] = torch.arange(cols, dtype=torch.int32) // group
    scales, zeros = ranges(w[:, order].reshape(rows, -1, group), bits, symmetric)
    scales = scales.half().float()  # as the file has them
    linear = torch.nn.Linear(cols, rows, bias=False)
    linear.weight.data = w
    module = TorchLinear(bits=bits, group_size=group, sym=symmetric, desc_act=act_order,
                         in_features=cols, out_features=rows)
    module.pack_original(linear, scales, zeros, g_idx)
    module.optimize = lambda *_, **__: None  # not compiled: it runs once
    module.post_init()
    packer = type("Config", (), {"bits": bits, "pack_dtype": torch.int32})
    if version == 1:
        convert_gptq_v2_to_v1_format_module(module, packer)
    tensors = {name: getattr(module, name).clone()
               for name in ("qweight", "qzeros", "scales", "g_idx")}
    if version == 1:
        convert_gptq_v1_to_v2_format_module(module, bits, torch.int32)
    module.scales = module.scales.float()
    module.eval()
    values = module.dequantize_weight().T
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric,
              "desc_act": act_order, "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    return tensors, values, config


def awq(w, group):
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm
    rows, cols = w.shape
    scales, zeros = ranges(w.reshape(rows, -1, group), 4, False)
    scales = scales.half().float()
    # AutoAWQ packs a weight that is already rounded.
    q = (w.reshape(rows, -1, group) / scales[..., None]).round() + zeros[..., None]
    rounded = (q.clamp(0, 15) - zeros[..., None]) * scales[..., None]
    linear = torch.nn.Linear(cols, rows, bias=False)
    linear.weight.data = rounded.reshape(rows, cols)
    module = WQLinear_GEMM.from_linear(linear.half(), 4, group, scales=scales.T.contiguous().half(),
                                       zeros=zeros.T.contiguous())
    tensors = {name: getattr(module, name).clone() for name in ("qweight", "qzeros", "scales")}
    values = dequantize_gemm(module.qweight, module.qzeros, module.scales.float(), 4, group).T
    return tensors, values, {"quant_method": "awq", "bits": 4, "group_size": group,
                             "zero_point": True, "version": "gemm"}


def compressed(w, fmt, scale_dtype=torch.bfloat16, **args):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams
    args = QuantizationArgs(num_bits=args.pop("bits", 8), type=args.pop("type", "int"), **args)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    rows, cols = w.shape
    strategy = str(getattr(args.strategy, "value", args.strategy))
    if strategy == "group":
        parts = w.reshape(rows, -1, args.group_size)
        low, high = parts.amin(-1), parts.amax(-1)
    elif strategy == "channel":
        low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    elif strategy == "block":
        r, c = args.block_structure
        parts = w.reshape(rows // r, r, cols // c, c)
        low, high = parts.amin((1, 3)), parts.amax((1, 3))
    else:
        low, high = w.min().reshape(1), w.max().reshape(1)
    scale, zero = calculate_qparams(low, high, args)
    compressor = BaseCompressor.get_value_from_registry(fmt)
    packed = compressor.compress({"weight": w, "weight_scale": scale.to(scale_dtype),
                                  "weight_zero_point": zero}, scheme)
    tensors = {name: value.clone() for name, value in packed.items()}
    wide = dict(packed, weight_scale=packed["weight_scale"].float())
    values = compressor.decompress(wide, scheme)["weight"].float()
    group = json.loads(scheme.model_dump_json(exclude_none=True))
    return tensors, values, {"quant_method": "compressed-tensors", "format": fmt,
                             "quantization_status": "compressed",
                             "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


def fp8(w, block):
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    config = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    if not block:
        scale = w.abs().max() / 448
        codes = (w / scale).to(torch.float8_e4m3fn)
        return {"weight": codes, "weight_scale": scale.float()}, codes.float() * scale, config
    (r, c), (rows, cols) = block, w.shape
    scale = w.reshape(rows // r, r, cols // c, c).abs().amax((1, 3)) / 448
    codes = (w / scale.repeat_interleave(r, 0).repeat_interleave(c, 1)).to(torch.float8_e4m3fn)
    values = Fp8Dequantize(None).convert(
        {"weight": codes, "weight_scale_inv": scale.float()})["weight"]
    if values.dtype != torch.float32:
        sys.exit("Fp8Dequantize rounded")
    return ({"weight": codes, "weight_scale_inv": scale.float()}, values,
            dict(config, weight_block_size=list(block)))


def packed_ints(w, bits, symmetric, **args):
    return compressed(w, "pack-quantized", bits=bits, symmetric=symmetric, **args)


def ints(w, fmt="int-quantized", symmetric=True, strategy="channel"):
    return compressed(w, fmt, symmetric=symmetric, strategy=strategy)


def floats(w, strategy, fmt="float-quantized", **args):
    return compressed(w, fmt, type="float", symmetric=True, strategy=strategy, **args)


MODULES = {
    "gptq-4-v1": lambda: gptq(weight(1), 4, 64, True, False, 1),
    "gptq-4-v1-asymmetric": lambda: gptq(weight(1), 4, 32, False, False, 1),
    "gptq-4-v2-asymmetric": lambda: gptq(weight(1), 4, 128, False, False, 2),
    "gptq-4-v1-act-order": lambda: gptq(weight(1), 4, 32, False, True, 1),
    "gptq-8-v1": lambda: gptq(weight(1), 8, 128, True, False, 1),
    "gptq-8-v2-act-order": lambda: gptq(weight(1), 8, 64, False, True, 2),
    "awq-64": lambda: awq(weight(2, 32), 64),
    "awq-128": lambda: awq(weight(2, 32), 128),
    "ct-int4-group": lambda: packed_ints(weight(3), 4, True, strategy="group", group_size=64),
    "ct-int4-group-asymmetric": lambda: packed_ints(weight(3), 4, False, strategy="group",
                                                    group_size=32),
    "ct-int4-channel-f32": lambda: packed_ints(weight(3), 4, True, strategy="channel",
                                               scale_dtype=torch.float32),
    "ct-int8-pack-group": lambda: packed_ints(weight(3), 8, True, strategy="group", group_size=128),
    "ct-int8-channel": lambda: ints(weight(3)),
    "ct-int8-channel-asymmetric": lambda: ints(weight(3), symmetric=False),
    "ct-int8-tensor": lambda: ints(weight(3), fmt="naive-quantized", strategy="tensor"),
    "ct-f8-channel": lambda: floats(weight(3), "channel"),
    "ct-f8-tensor": lambda: floats(weight(3), "tensor", fmt="naive-quantized"),
    "ct-f8-block": lambda: floats(weight(3), "block", block_structure=[8, 64]),
    "fp8-block": lambda: fp8(weight(4), (8, 32)),
    "fp8-tensor": lambda: fp8(weight(4), None),
}

CHECKPOINTS = {
    "gptq-4-v1": lambda w: gptq(w, 4, 64, True, False, 1),
    "gptq-4-v2-act-order": lambda w: gptq(w, 4, 64, False, True, 2),
    "gptq-8-v1": lambda w: gptq(w, 8, 64, True, False, 1),
    "awq-64": lambda w: awq(w, 64),
    "ct-int4-group": lambda w: packed_ints(w, 4, True, strategy="group", group_size=64),
    "ct-int8-channel": lambda w: ints(w),
    "ct-f8-channel": lambda w: floats(w, "channel"),
    "fp8-block": lambda w: fp8(w, (64, 64)),
    "fp8-tensor": lambda w: fp8(w, None),
}


def make_modules(out):
    out.mkdir(parents=True, exist_ok=True)
    for name, make in MODULES.items():
        tensors, values, config = make()
        tensors = {"m." + k: v.contiguous() for k, v in tensors.items()}
        tensors["values"] = values.detach().float().contiguous()
        save_file(tensors, out / f"{name}.safetensors")
        (out / f"{name}.safetensors").chmod(0o644)
        text = json.dumps({"quantization_config": config}, indent=1) + "\n"
        (out / f"{name}.json").write_text(text)
        print(name, {k: (str(v.dtype)[6:], list(v.shape)) for k, v in tensors.items()})


def make_checkpoint(source, case, out):
    packed, dense = {}, {}
    with safe_open(source / "model.safetensors", "pt") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            dense[name] = tensor.float()
            if not name.endswith("_proj.weight"):
                packed[name] = tensor
                continue
            tensors, values, own = CHECKPOINTS[case](tensor.float())
            for suffix, value in tensors.items():
                packed[name.removesuffix("weight") + suffix] = value.contiguous()
            dense[name] = values.detach().float().contiguous()
    for directory, tensors, extra in ((out / case, packed, {"quantization_config": own}),
                                      (out / f"{case}-f32", dense, {"dtype": "float32"})):
        directory.mkdir(parents=True, exist_ok=True)
        for path in source.glob("*.json*"):
            shutil.copy(path, directory)
        for path in source.glob("*.jinja"):
            shutil.copy(path, directory)
        config = json.loads((source / "config.json").read_text()) | extra
        (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--checkpoint", type=pathlib.Path)
    parser.add_argument("--case", choices=sorted(CHECKPOINTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.checkpoint:
        make_checkpoint(args.checkpoint, args.case, args.out)
    else:
        make_modules(args.out)


if __name__ == "__main__":
    main()
