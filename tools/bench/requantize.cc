// The table of the second cast: what it costs to turn row-wise FP8 column-wise, in dB.
#include <cmath>
#include <random>

#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "ops/elementwise.h"
#include "ops/owned_scaled_tensor.h"
#include "ops/quantize.h"
#include "ops/scaling_aware_transpose.h"
#include "tools/bench/bench.h"

namespace mxo::tools {
namespace {

constexpr double kMilliseconds = 1e3;
constexpr Index kRows = 4096;
constexpr Index kColumns = 2048;

/// Casts again by a rule, or moves exponents.
struct Way {
  std::string_view name;
  F32ScaleRule rule;  ///< of both casts, or of the one there is
  bool casts;
  Underflow underflow = Underflow::round;
};
constexpr Way kWays[] = {
    {"cast again, scales of any value", kTorchaoBlockwise, true},
    {"cast again, powers of two", kFlowBlockwise, true},
    {"move exponents, round", kFlowBlockwise, false, Underflow::round},
    {"move exponents, keep_mantissa", kFlowBlockwise, false, Underflow::keep_mantissa},
    {"move exponents, flush", kFlowBlockwise, false, Underflow::flush},
};

/// Heavy tails: Student's t of 3 degrees of freedom, rows of scales 2^(two normal deviates).
Tensor drawn(const Bench& bench, bool heavy_tailed) {
  Tensor x(Dtype::f32, {bench.token_count(kRows), bench.extent(kColumns)});
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> student(3.0f);
  const Index columns = x.extent(1);
  for (Index r = 0; r < x.extent(0); ++r) {
    const float scale = heavy_tailed ? std::exp2(2.0f * normal(random)) : 1.0f;
    for (Index k = 0; k < columns; ++k) {
      x.as<float>()[r * columns + k] = scale * (heavy_tailed ? student(random) : normal(random));
    }
  }
  return x;
}

/// The matrices of a file, or the two that are drawn.
NamedTensors matrices(const Bench& bench) {
  NamedTensors all;
  if (bench.input.empty()) {
    all.emplace("normal", drawn(bench, false));
    all.emplace("heavy_tailed", drawn(bench, true));
    return all;
  }
  for (auto& [name, tensor] : read_tensors(bench.input).tensors) {
    const Dtype type = tensor.dtype();
    const bool floats = type == Dtype::f32 || type == Dtype::bf16 || type == Dtype::f16;
    if (tensor.rank() == 2 && floats && tensor.elements() > 0) all.emplace(name, std::move(tensor));
  }
  if (all.empty()) {
    throw Error(Fault::file, bench.input + ": needs a matrix of f32, bf16 or f16");
  }
  return all;
}

double sqnr(const Tensor& truth, const Tensor& found) {
  double signal = 0.0;
  double noise = 0.0;
  for (Index i = 0; i < truth.elements(); ++i) {
    const double t = truth.as<float>()[i];
    const double d = t - found.as<float>()[i];
    signal += t * t;
    noise += d * d;
  }
  return noise == 0.0 ? INFINITY : 10.0 * std::log10(signal / noise);
}

Cell decibels(double value) {
  return std::isinf(value) ? Cell{"exact", nullptr} : figure(value, 1);
}

/// x [R, K] cast along rows, then turned.
class Turn {
 public:
  Turn(const Bench& bench, const Tensor& x, const Way& way)
      : backend_(*bench.backend), way_(way), rows_(x.extent(0)), columns_(x.extent(1)) {
    const MirroredTensor given(backend_, x);
    x_ = BackendTensor(backend_, Dtype::f32, {rows_, columns_});
    cast(backend_, {given.operand(), x_.result()});
    const Index shape[] = {rows_, columns_};
    once_ = OwnedScaledTensor(backend_, Dtype::e4m3, shape, Dtype::f32,
                              shape_of_scales(shape, kRowBlock), kRowBlock);
    quantize(backend_, {x_.operand(), {}, once_.result(), f32_rule(way.rule)});
    high_ = BackendTensor(backend_, Dtype::f32, {rows_, columns_});
    dequantize(backend_, {once_.view(), {}, high_.result()});
    ends_ = group_ends(backend_, rows_, 1, Groups::even);
    codes_ = BackendTensor(backend_, Dtype::e4m3, {columns_, rows_});
    scales_ = BackendTensor(backend_, Dtype::f32, {ceil_div(rows_, kScaledBlock), columns_});
  }

  void run() {
    if (way_.casts) {
      quantize(backend_, {high_.operand(),
                          ends_.operand(),
                          {transposed(codes_.result()), scales_.result(), kColumnBlock},
                          f32_rule(way_.rule)});
      return;
    }
    scaling_aware_transpose(backend_, {once_.codes(), once_.scales(), ends_.operand(),
                                       codes_.result(), scales_.result(), way_.underflow});
  }

  Cells errors() {
    BackendTensor back(backend_, Dtype::f32, {rows_, columns_});
    dequantize(backend_, {{transposed(codes_.operand()), scales_.operand(), kColumnBlock},
                          ends_.operand(),
                          back.result()});
    const Tensor x = on_host(backend_, x_.operand());
    const Tensor expected_output = on_host(backend_, high_.operand());
    const Tensor found = on_host(backend_, back.operand());
    Index changed = 0;
    double worst = 0.0;
    for (Index i = 0; i < expected_output.elements(); ++i) {
      const double a = expected_output.as<float>()[i];
      const double b = found.as<float>()[i];
      changed += a != b;
      if (a != 0.0) worst = std::max(worst, std::fabs(b - a) / std::fabs(a));
    }
    const double before = sqnr(x, expected_output);
    const double after = sqnr(x, found);
    const double share =
        static_cast<double>(changed) / static_cast<double>(expected_output.elements());
    return {{"changed %", figure(100.0 * share, 4)},
            {"largest relative", figure(worst, 2)},
            {"dB of the first cast's values", decibels(sqnr(expected_output, found))},
            {"dB of x, cast once", decibels(before)},
            {"dB of x, turned", decibels(after)},
            {"dB lost", before == after ? figure(0.0, 2) : figure(before - after, 2)}};
  }

 private:
  Backend& backend_;
  const Way& way_;
  Index rows_, columns_;
  BackendTensor x_, high_, codes_, scales_;
  OwnedScaledTensor once_;
  MirroredTensor ends_;
};

}  // namespace

Table requantize_table(const Bench& bench) {
  Table table{
      "requantize",
      "e4m3 in 1x128 blocks turned to blocks along the other axis: cast again, or exponents "
      "moved",
      {},
      {}};
  const NamedTensors all = matrices(bench);
  for (const auto& [name, x] : all) {
    for (const Way& way : kWays) {
      bench.tell(table.rows.size(), all.size() * std::size(kWays), name);
      Turn turn(bench, x, way);
      const Timing timing = time_calls(bench, {{"turn", 0.0, [&] { turn.run(); }}})[0];
      Cells cells = {{"tensor", words(name)},
                     {"rows", tally(x.extent(0))},
                     {"columns", tally(x.extent(1))},
                     {"way", words(std::string(way.name))},
                     {"ms", timed(timing.call, kMilliseconds)}};
      for (auto& cell : turn.errors()) cells.push_back(std::move(cell));
      table.rows.push_back(std::move(cells));
    }
  }
  table.notes.emplace_back(
      "SQNR in dB: of what was turned against the values of the first cast, and of either against "
      "x; "
      "lost: by the second step");
  return table;
}

}  // namespace mxo::tools
