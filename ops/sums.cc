// The table of sums: which machine adds how, and how we know.
#include "ops/sums.h"

#include <string>

#include "formats/aliases.h"
#include "formats/error.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

constexpr std::string_view kH200 =
    "verified: H200, CUDA 13.0; every bit of the captured instructions and library products";
constexpr std::string_view kH200Mx =
    "verified: H200; every bit of torchao's emulated MXFP8 grouped products";
constexpr std::string_view kDeepGemmRun =
    "verified: H200, DeepGEMM 54e2261, fp8_gemm_nt and m_grouped_fp8_gemm_nt_contiguous (1D2D)";
constexpr std::string_view kCublasLt =
    "verified: H200, cuBLASLt 13.0 by torch 2.11 scaled_mm, 1x128 by 128x128; a split of K is "
    "sum.split";
constexpr std::string_view kTriton =
    "verified: H200, Triton 3.6, acc += dot(a, b) * sx * sw; BLOCK_K 64 is sum.block=64, "
    "max_num_imprecise_acc=32 is sum.promote=1";
constexpr std::string_view kAda =
    "published: arXiv 2511.10909 (MMA-Sim), arXiv 2512.07004; single chunks agree with the "
    "authors' captures";
constexpr std::string_view kBlackwell =
    "published: arXiv 2511.10909 (MMA-Sim), arXiv 2512.07004; not checked on the machine";
constexpr std::string_view kBlackwellMx =
    "published: arXiv 2511.10909 (MMA-Sim) alone; not checked on the machine";
constexpr std::string_view kCdna3 =
    "published: arXiv 2511.10909 (MMA-Sim), arXiv 2512.07004; no captures to check against";

constexpr Accumulation kWgmmaFp8{"h200_wgmma_fast",
                                 SumFamily::fused_dot,
                                 Evidence::verified,
                                 32,
                                 32,
                                 13,
                                 StepRounding::toward_zero,
                                 13,
                                 -133,
                                 ChunkOrder::ascending,
                                 0,
                                 1,
                                 128,
                                 ScalePlace::epilogue};
constexpr Accumulation kWgmmaBf16{"h200_wgmma_fast",
                                  SumFamily::fused_dot,
                                  Evidence::verified,
                                  16,
                                  16,
                                  25,
                                  StepRounding::toward_zero,
                                  23,
                                  -133,
                                  ChunkOrder::ascending,
                                  0,
                                  1,
                                  64,
                                  ScalePlace::epilogue};
constexpr Accumulation kCdna3Bf16{"mi300_mfma",
                                  SumFamily::cdna3_dot,
                                  Evidence::published,
                                  16,
                                  8,
                                  24,
                                  StepRounding::nearest_even,
                                  23,
                                  -126,
                                  ChunkOrder::ascending,
                                  0,
                                  1,
                                  64,
                                  ScalePlace::epilogue};

/// Rows that differ from another in a few fields.
constexpr Accumulation with_scales(Accumulation sum, ScalePlace place) {
  sum.scales = place;
  return sum;
}
constexpr Accumulation promoted(Accumulation sum, std::string_view name, int promote) {
  sum.name = name;
  sum.promote = promote;
  return sum;
}
/// The emulated path: two f16 instructions from zero, then one f32 addition of C, which is a
/// promotion after every instruction.
constexpr Accumulation emulated_fp8(std::string_view name) {
  Accumulation sum = promoted(kWgmmaFp8, name, 1);
  sum.chunk = 16;
  sum.bits = 25;
  sum.mantissa = 23;
  sum.order = ChunkOrder::pairs_apart;
  return sum;
}
/// A library's product of blocks of 128 k with f32 scales.
constexpr Accumulation in_blocks(std::string_view name, Fold fold) {
  Accumulation sum = promoted(kWgmmaFp8, name, 0);
  sum.fold = fold;
  sum.block = 128;
  return sum;
}
constexpr Accumulation cut_at(Accumulation sum, int tile) {
  sum.tile = tile;
  return sum;
}
constexpr Accumulation named(Accumulation sum, std::string_view name) {
  sum.name = name;
  return sum;
}
constexpr Accumulation published(std::string_view name, const Accumulation& like, int chunk,
                                 int bits, int mantissa, int floor = -133) {
  Accumulation sum = like;
  sum.name = name;
  sum.evidence = Evidence::published;
  sum.chunk = chunk;
  sum.bits = bits;
  sum.mantissa = mantissa;
  sum.exponent_floor = floor;
  return sum;
}
constexpr Accumulation kAdaBf16 = published("ada_mma", kWgmmaBf16, 8, 24, 23, -132);
constexpr Accumulation kB200Bf16 = published("b200_tcgen05", kWgmmaBf16, 16, 25, 23);
constexpr Accumulation block_scaled(std::string_view name) {
  return with_scales(published(name, kWgmmaFp8, 32, 25, 23), ScalePlace::exponent);
}
constexpr Accumulation kCdna3Fp8{"mi300_mfma",
                                 SumFamily::cdna3_dot,
                                 Evidence::published,
                                 32,
                                 16,
                                 24,
                                 StepRounding::nearest_even,
                                 23,
                                 -126,
                                 ChunkOrder::parity_apart,
                                 0,
                                 1,
                                 128,
                                 ScalePlace::epilogue};

constexpr std::string_view kJointBlocks =
    "blocks of 128 k as h200_wgmma_fast, acc = fma(p, fl(sx * sw), acc)";
constexpr std::string_view kWgmma25 = "chain of 16 k, 25 fraction bits, truncated to f32";
constexpr std::string_view kDequantised = "operands dequantised to bf16 (RNE), then the bf16 row";
using enum OperandKind;

constexpr SumRow kSums[] = {
    {"exact", "any", other, "the real number, rounded once to the output type",
     "defined: by this library", kExact},
    {"fma_chain", "any", other, "acc = fma(a, b, acc) in f32, k ascending from +0",
     "defined: by this library", kFmaChain},
    {"h200_wgmma_fast", "fp8", fp8, "chain of 32 k, 13 fraction bits, truncated to E8M13", kH200,
     kWgmmaFp8},
    {"h200_wgmma_fast", "bf16", bf16, kWgmma25, kH200, kWgmmaBf16},
    {"h200_wgmma_fast", "f16", f16, kWgmma25, kH200, kWgmmaBf16},
    {"h200_wgmma_fast", "mx", mx, kDequantised, kH200Mx,
     with_scales(kWgmmaBf16, ScalePlace::operand)},
    {"h200_wgmma_promote4", "fp8", fp8, "as fast, every 128 k added to an f32 sum (RN)", kH200,
     promoted(kWgmmaFp8, "h200_wgmma_promote4", 4)},
    {"deepgemm_sm90", "fp8", fp8, kJointBlocks, kDeepGemmRun,
     in_blocks("deepgemm_sm90", Fold::joint)},
    {"cublaslt_blockwise_sm90", "fp8", fp8, kJointBlocks, kCublasLt,
     cut_at(in_blocks("cublaslt_blockwise_sm90", Fold::joint), 512)},
    {"triton_block_sm90", "fp8", fp8,
     "blocks of 128 k as h200_wgmma_fast, acc = fma(fl(p * sx), sw, acc)", kTriton,
     in_blocks("triton_block_sm90", Fold::x_then_w)},
    {"h200_mma_sync", "fp8", fp8,
     "emulated: 16 k with k mod 4 in {0, 1}, then {2, 3}, 25 bits; result + C in f32 (RN)", kH200,
     emulated_fp8("h200_mma_sync")},
    {"h200_mma_sync", "bf16", bf16, kWgmma25, kH200, named(kWgmmaBf16, "h200_mma_sync")},
    {"h200_mma_sync", "f16", f16, kWgmma25,
     "published: arXiv 2512.07004; the bf16 form is verified on an H200",
     [] {
       Accumulation sum = named(kWgmmaBf16, "h200_mma_sync");
       sum.evidence = Evidence::published;
       return sum;
     }()},
    {"ada_mma", "fp8", fp8, "chain of 16 k, 13 fraction bits, truncated to E8M13", kAda,
     published("ada_mma", kWgmmaFp8, 16, 13, 13, -132)},
    {"ada_mma", "bf16", bf16, "chain of 8 k, 24 fraction bits, truncated to f32", kAda, kAdaBf16},
    {"ada_mma", "f16", f16, "chain of 8 k, 24 fraction bits, truncated to f32", kAda, kAdaBf16},
    {"ada_mma", "mx", mx, kDequantised, kAda, with_scales(kAdaBf16, ScalePlace::operand)},
    {"b200_tcgen05", "fp8", fp8, "chain of 32 k, 25 fraction bits, truncated to f32", kBlackwell,
     published("b200_tcgen05", kWgmmaFp8, 32, 25, 23)},
    {"b200_tcgen05", "bf16", bf16, kWgmma25, kBlackwell, kB200Bf16},
    {"b200_tcgen05", "f16", f16, kWgmma25, kBlackwell, kB200Bf16},
    {"b200_tcgen05", "mx", mx, kDequantised, kBlackwell,
     with_scales(kB200Bf16, ScalePlace::operand)},
    {"b200_mxf8f6f4", "mx", mx,
     "chain of 32 k, scales added to the exponents, 25 fraction bits, truncated to f32",
     kBlackwellMx, block_scaled("b200_mxf8f6f4")},
    {"sm120_mxf8f6f4", "mx", mx,
     "chain of 32 k, scales added to the exponents, 25 fraction bits, truncated to f32",
     kBlackwellMx, block_scaled("sm120_mxf8f6f4")},
    {"mi300_mfma", "fp8 fnuz", fp8_fnuz,
     "chain of 16 k: 8 even and 8 odd apart, 24 bits, floors, C dropped below 2^-25, RNE f32",
     kCdna3, kCdna3Fp8},
    {"mi300_mfma", "bf16", bf16, "chain of 8 k, 24 bits, then 31 and 24 with floors, RNE f32",
     kCdna3, kCdna3Bf16},
    {"mi300_mfma", "f16", f16, "chain of 8 k, 24 bits, then 31 and 24 with floors, RNE f32", kCdna3,
     kCdna3Bf16},
    {"mi300_mfma", "mx fnuz", mx_fnuz, kDequantised, kCdna3,
     with_scales(kCdna3Bf16, ScalePlace::operand)},
};

constexpr std::string_view kKindNames[] = {"fp8 (e4m3, e5m2)", "fnuz fp8",    "bf16", "f16", "mx",
                                           "mx fnuz",          "f32 or mixed"};

}  // namespace

std::span<const SumRow> sums() { return kSums; }

OperandKind operand_kind(Dtype a, Dtype b, bool block_scaled) {
  const auto ocp = [](Dtype d) { return d == Dtype::e4m3 || d == Dtype::e5m2; };
  const auto fnuz = [](Dtype d) { return d == Dtype::e4m3fnuz || d == Dtype::e5m2fnuz; };
  if (ocp(a) && ocp(b)) return block_scaled ? OperandKind::mx : OperandKind::fp8;
  if (fnuz(a) && fnuz(b)) return block_scaled ? OperandKind::mx_fnuz : OperandKind::fp8_fnuz;
  if (a == Dtype::bf16 && b == Dtype::bf16) return OperandKind::bf16;
  if (a == Dtype::f16 && b == Dtype::f16) return OperandKind::f16;
  return OperandKind::other;
}

Accumulation sum_named(std::string_view name, OperandKind kind, std::string_view operands) {
  std::vector<std::string_view> known;
  std::string taken;
  for (const SumRow& row : kSums) {
    if (row.name == name) {
      if (row.kind == kind || !is_machine(row.sum)) return row.sum;
      taken += (taken.empty() ? "" : ", ") + std::string(row.operands);
    }
    if (known.empty() || row.name != known.back()) known.push_back(row.name);
  }
  if (!taken.empty()) {
    const std::string_view kind_name = kKindNames[static_cast<int>(kind)];
    const std::string found =
        operands.empty() ? "operands of kind " + std::string(kind_name) : std::string(operands);
    throw Error(Fault::unsupported, "sum: " + std::string(name) + ": found " + found +
                                        ", needs both of one kind: " + taken);
  }
  const std::string_view here = canonical_name(Word::sum, name);
  throw Error(Fault::argument, with_nearest("sum: found '" + std::string(name) + "'",
                                            here.empty() ? name : here, known, "needs one of"));
}

std::string_view name_of(Fold fold) {
  constexpr std::string_view kNames[] = {"by_scales", "term",  "x_then_w",   "joint",
                                         "joint_add", "after", "after_joint"};
  return kNames[static_cast<int>(fold)];
}

Accumulation resolved_sum(std::string_view op, Accumulation sum, bool scaled, bool numbers,
                          Index shared) {
  const auto fail = [&](Fault fault, const std::string& what) {
    throw Error(fault, std::string(op) + ": " + what);
  };
  const bool given = sum.fold != Fold::by_scales;
  if (!given) {
    const bool term = sum.family == SumFamily::exact || !numbers;
    sum.fold = term ? Fold::term : shared == 0 ? Fold::after : Fold::x_then_w;
  }
  const bool term = sum.fold == Fold::term;
  if (sum.family == SumFamily::exact && (!term || sum.block != 0)) {
    fail(Fault::argument, "sum: exact has every scale in its terms and no blocks; found fold " +
                              std::string(name_of(sum.fold)) + ", block " +
                              std::to_string(sum.block));
  }
  if (is_machine(sum) && scaled && term != (sum.scales != ScalePlace::epilogue)) {
    fail(Fault::unsupported,
         "sum.fold: found " + std::string(name_of(sum.fold)) + ", but " + std::string(sum.name) +
             (term ? " takes scales after its sums only" : " takes scales inside its terms only"));
  }
  if (is_after(sum.fold) && shared != 0) {
    fail(Fault::argument, "sum.fold: found " + std::string(name_of(sum.fold)) +
                              ", but scales change every " + std::to_string(shared) +
                              " k; needs x_then_w, joint or joint_add");
  }
  if (sum.block == 0 && !term && !is_after(sum.fold)) {
    const bool by_128 = shared == 0 || shared % 128 == 0;
    sum.block = by_128 ? 128 : static_cast<int>(shared);
  }
  if (!term && shared != 0 && shared % sum.block != 0) {
    fail(Fault::argument, "sum.block: found " + std::to_string(sum.block) +
                              ", needs a divisor of the " + std::to_string(shared) +
                              " k that share their scales");
  }
  return sum;
}

void require_machine_takes(std::string_view op, const Accumulation& sum, OperandKind kind) {
  const bool scaled = kind == OperandKind::mx || kind == OperandKind::mx_fnuz;
  const bool takes_scales = sum.scales != ScalePlace::epilogue;
  if (kind == OperandKind::other || (scaled && !takes_scales) ||
      (!scaled && sum.scales == ScalePlace::exponent)) {
    throw Error(Fault::unsupported, std::string(op) + ": sum: " + std::string(sum.name) +
                                        " does not take operands of kind " +
                                        std::string(kKindNames[static_cast<int>(kind)]));
  }
}

}  // namespace mxo
