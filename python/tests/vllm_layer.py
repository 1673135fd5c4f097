"""A DeepSeek-V3-style expert layer in plain PyTorch, as vLLM's kernels for DeepGEMM compute it.

Second writing of `mxo run moe_layer` with pipeline=fp8_blockwise and recipe=vllm or vllm_up, from
vLLM 055e47c (DeepGemmExperts, grouped_topk, silu_mul_per_token_group_quant_fp8_colmajor,
ep_gather) and DeepGEMM 54e2261 (per_block_cast_to_fp8, sm90_fp8_gemm_1d2d).  No code of this
library is used.  What a kernel leaves open is settled: rows of an expert in the order of tokens,
sigmoid and exp through binary64.
"""
import torch

E4M3 = torch.float8_e4m3fn
TOP_K, GROUPS, LIMITED, SCALE = 3, 4, 2, 2.5
SETTINGS = {
    "top_k": TOP_K, "score": "sigmoid", "groups": GROUPS, "limited_groups": LIMITED,
    "scale": SCALE, "pipeline": "fp8_blockwise", "bf16_steps": "activation",
    "sum": "deepgemm_sm90", "keep_stages": True,
}  # fmt: skip


def integers(shape, salt):
    """Numbers -128 to 127 that a line of any language makes again."""
    count = 1
    for extent in shape:
        count *= extent
    u = (torch.arange(count, dtype=torch.int64) * 2654435761 + salt * 40503) & 0xFFFFFFFF
    u = u ^ (u >> 15)
    u = (u * 2246822519) & 0xFFFFFFFF
    u = u ^ (u >> 13)
    return ((u >> 24) - 128).reshape(shape)


def weights(experts=8, width=256, features=128, shared=128):
    """Operands of the layer besides x; every block of 128 has a magnitude of its own."""
    make = lambda salt, *shape: (integers(shape, salt).double() / 1024).bfloat16()  # noqa: E731
    operands = {
        "router": make(1, experts, width), "w1": make(2, experts, 2 * features, width),
        "w2": make(3, experts, width, features), "shared.w1": make(4, 2 * shared, width),
        "shared.w2": make(5, width, shared),
        "router.bias": (integers((experts,), 6).double() / 1024).float(),
    }  # fmt: skip
    # No two sums of biases are equal: torch.topk leaves open which of equal choices it takes.
    operands["router.bias"] += torch.exp2(torch.arange(experts) - 20.0)
    for e in range(experts):
        operands["w1"][e, :128] *= 2.0 ** (e % 3)
    return operands


def power_up(scale):
    return torch.exp2(torch.ceil(torch.log2(scale)))


def group_quantize(x, up):
    """native_per_token_group_quant_fp8: 1x128."""
    groups = x.reshape(-1, 128)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10).float() / 448.0
    scale = power_up(scale) if up else scale
    codes = (groups / scale).clamp(-448.0, 448.0).to(E4M3)
    return codes.reshape(x.shape), scale.reshape(*x.shape[:-1], -1)


def block_quantize(w, up):
    """per_block_cast_to_fp8 of every expert: 128x128."""
    e, n, k = w.shape
    blocks = w.reshape(e, n // 128, 128, k // 128, 128)
    scale = blocks.abs().float().amax((2, 4), keepdim=True).clamp(1e-4) / 448.0
    scale = power_up(scale) if up else scale
    codes = (blocks * (1.0 / scale)).to(E4M3)
    return codes.reshape(w.shape), scale.reshape(e, n // 128, k // 128)


def exponents(codes):
    """Of e4m3 numbers; those of subnormals are that of the smallest normal one."""
    return ((codes.view(torch.uint8).long() >> 3) & 15).clamp(min=1) - 7


def wgmma(a, b):
    """One K block of 128 on Hopper's matrix unit from a zero accumulator: four instructions of 32,
    each one fused sum with 13 fraction bits, cut toward zero to 13 mantissa bits."""
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float64)
    for k in range(0, a.shape[1], 32):
        x, w = a[:, k : k + 32], b[:, k : k + 32]
        products = x.double()[:, None, :] * w.double()[None, :, :]
        places = exponents(x)[:, None, :] + exponents(w)[None, :, :]
        places = torch.where(products == 0, -133, places).amax(-1)
        own = torch.where(total == 0, -133, torch.frexp(total)[1].long() - 1)
        unit = torch.exp2((torch.maximum(places, own) - 13).double())
        terms = torch.cat([products, total[..., None]], -1)
        total = torch.trunc(terms / unit[..., None]).sum(-1) * unit
        fraction, exponent = torch.frexp(total)
        total = torch.ldexp(torch.trunc(fraction * 2.0**14), exponent - 14)
    return total


def fma(p, s, acc):
    """f32 of p * s + acc with one rounding: the product is exact in binary64, and the sum is
    rounded to odd there first."""
    product, acc = p * s.double(), acc.double()
    total = product + acc
    part = total - product
    lost = (product - (total - part)) + (acc - part)
    bits = total.view(torch.int64)
    inward = torch.where((lost > 0) == (total > 0), 1, -1)
    odd = torch.where((lost != 0) & (bits & 1 == 0), bits + inward, bits)
    return odd.view(torch.float64).float()


def product(x, sx, w, sw):
    """DeepGEMM's 1D2D product of one expert: fma(p, fl(sx sw), acc) for every 128 of K."""
    acc = torch.zeros(x.shape[0], w.shape[0])
    for b in range(x.shape[1] // 128):
        columns = slice(128 * b, 128 * b + 128)
        scales = sx[:, b, None] * sw[:, b].repeat_interleave(128)[None, :]
        acc = fma(wgmma(x[:, columns], w[:, columns]), scales, acc)
    return acc.bfloat16()


def sigmoid(x):
    return torch.sigmoid(x.double()).float()


def silu_and_mul(h):
    """silu rounded to bf16, then the product, rounded to bf16."""
    gate, up = h.chunk(2, -1)
    return (gate.float() * sigmoid(gate.float())).bfloat16() * up


def grouped_topk(logits, bias):
    """With a correction bias: groups by their two best, others masked with -infinity."""
    scores = sigmoid(logits)
    choices = scores + bias
    groups = choices.view(len(logits), GROUPS, -1)
    kept = groups.topk(2, -1)[0].sum(-1).topk(LIMITED, -1)[1]
    mask = torch.zeros(groups.shape[:2], dtype=torch.bool).scatter_(1, kept, True)
    choices = groups.masked_fill(~mask[..., None], float("-inf")).flatten(1)
    experts = choices.topk(TOP_K, -1, sorted=True)[1]
    chosen = scores.gather(1, experts)
    total = chosen[:, 0]
    for slot in range(1, TOP_K):
        total = total + chosen[:, slot]
    return experts.int(), chosen / total[:, None] * SCALE


def experts_product(codes, scales, w, sw, groups):
    """Rows of every group by its own weights; rows of none are zeros."""
    out = torch.zeros(codes.shape[0], w.shape[1], dtype=torch.bfloat16)
    for e, rows in enumerate(groups):
        out[rows] = product(codes[rows], scales[rows], w[e], sw[e])
    return out


def experts_of_rows(codes, scales, w1, w2, groups, up):
    """Gate, up and down of all rows; every stage."""
    h = experts_product(codes, scales, *block_quantize(w1, up), groups)
    act = silu_and_mul(h)
    act_codes, act_scales = group_quantize(act, up)
    out = experts_product(act_codes, act_scales, *block_quantize(w2, up), groups)
    return {"h": h, "act": act, "act.codes": act_codes, "act.scales": act_scales,
            "expert_out": out}  # fmt: skip


def layer(x, operands, up):
    """Every stage of the layer, by the names of `mxo run moe_layer`."""
    experts_of, _ = operands["router"].shape
    stages = {"logits": (x.double() @ operands["router"].double().T).float()}
    experts, topk_weights = grouped_topk(stages["logits"], operands["router.bias"])
    codes, scales = group_quantize(x, up)
    stages |= {"experts": experts, "weights": topk_weights}
    stages |= {"quantized.codes": codes, "quantized.scales": scales}

    # permute: experts ascending, tokens ascending, each expert padded to 128 rows; all rows are as
    # many as compute_aligned_M says
    order = torch.argsort(experts.flatten().long(), stable=True)
    tokens, owners = order // TOP_K, experts.flatten()[order].long()
    stages |= {"dispatched.codes": codes[tokens], "dispatched.scales": scales[tokens]}
    counts = torch.bincount(owners, minlength=experts_of)
    padded = (counts + 127) // 128 * 128
    starts, ends = padded.cumsum(0) - padded, padded.cumsum(0)
    places = starts[owners] + torch.cat([torch.arange(int(count)) for count in counts])
    rows = (len(order) + experts_of * 127 + 127) // 128 * 128
    permuted = torch.zeros(rows, x.shape[1], dtype=torch.uint8)
    permuted[places] = codes[tokens].view(torch.uint8)
    permuted_scales = torch.zeros(rows, scales.shape[1])
    permuted_scales[places] = scales[tokens]
    stages |= {"permuted.codes": permuted.view(E4M3), "permuted.scales": permuted_scales}
    groups = [slice(int(start), int(end)) for start, end in zip(starts, ends)]
    stages |= experts_of_rows(permuted.view(E4M3), permuted_scales, operands["w1"],
                              operands["w2"], groups, up)  # fmt: skip

    # weighted sum: f32, slots ascending, every product and sum rounded
    where = torch.empty(len(order), dtype=torch.int64)
    where[order] = places
    out = torch.zeros(x.shape[0], x.shape[1])
    for slot in range(TOP_K):
        mine = stages["expert_out"][where.view(-1, TOP_K)[:, slot]].float()
        out = out + mine * topk_weights[:, slot, None]
    stages["combined"] = out.bfloat16()

    shared = experts_of_rows(codes, scales, operands["shared.w1"][None],
                             operands["shared.w2"][None], [slice(0, len(x))], up)  # fmt: skip
    stages["y"] = stages["combined"] + shared["expert_out"]
    return stages
