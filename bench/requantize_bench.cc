// What a second cast costs: row-wise FP8 turned column-wise by requantising, with scales of any
// value and with powers of two, and by moving exponents under each underflow rule; error against
// the row-wise values, and time.
#include <omp.h>

#include <cmath>

#include "bench/rival.h"
#include "emu/backends.h"
#include "ops/quantize.h"
#include "ops/scaling_aware_transpose.h"

namespace mxo {
namespace {

constexpr Index kRows = 4096;
constexpr Index kColumns = 2048;

enum class Data : std::uint8_t { normal, heavy_tailed };
enum class Way : std::uint8_t { any_scale, power_of_2, round, keep_mantissa, flush };

/// Scales of any value are torchao's, powers of two the flow's.
const F32ScaleRule& rule_of(Way way) {
  return way == Way::any_scale ? kTorchaoBlockwise : kFlowBlockwise;
}

/// Heavy tails: Student's t of 3 degrees of freedom, rows of scales 2^(two normal deviates).
Tensor values(Data data) {
  Tensor x(Dtype::f32, {kRows, kColumns});
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> student(3.0f);
  for (Index r = 0; r < kRows; ++r) {
    const float scale = data == Data::normal ? 1.0f : std::exp2(2.0f * normal(random));
    for (Index k = 0; k < kColumns; ++k) {
      x.as<float>()[r * kColumns + k] =
          scale * (data == Data::normal ? normal(random) : student(random));
    }
  }
  return x;
}

struct Quantised {
  Tensor codes;
  Tensor scales;
};

/// codes * scales [R, K]; scales along rows or along columns in blocks of 128.
Tensor dequantised(const Quantised& q, bool along_tokens) {
  Tensor x(Dtype::f32, {kRows, kColumns});
  for (Index r = 0; r < kRows; ++r) {
    for (Index k = 0; k < kColumns; ++k) {
      const Index code = along_tokens ? k * kRows + r : r * kColumns + k;
      const Index scale = along_tokens ? r / kScaledBlock * kColumns + k
                                       : r * (kColumns / kScaledBlock) + k / kScaledBlock;
      x.as<float>()[r * kColumns + k] =
          decode(E4M3{q.codes.as<std::uint8_t>()[code]}) * q.scales.as<float>()[scale];
    }
  }
  return x;
}

Quantised row_wise(Backend& backend, const Tensor& x, Way way) {
  Quantised q{Tensor(Dtype::e4m3, {kRows, kColumns}),
              Tensor(Dtype::f32, {kRows, kColumns / kScaledBlock})};
  quantize(
      backend,
      {x.operand(), {}, {q.codes.result(), q.scales.result(), kRowBlock}, f32_rule(rule_of(way))});
  return q;
}

/// The way to codes [K, R] with scales along tokens.
void turn(Backend& backend, Way way, const Quantised& rows, const Tensor& high, const Tensor& ends,
          Quantised& out) {
  if (way <= Way::power_of_2) {
    quantize(backend, {high.operand(),
                       ends.operand(),
                       {transposed(out.codes.result()), out.scales.result(), kColumnBlock},
                       f32_rule(rule_of(way))});
    return;
  }
  const Underflow rules[] = {Underflow::round, Underflow::keep_mantissa, Underflow::flush};
  scaling_aware_transpose(
      backend, {rows.codes.operand(), rows.scales.operand(), ends.operand(), out.codes.result(),
                out.scales.result(), rules[static_cast<int>(way) - 2]});
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
  return 10.0 * std::log10(signal / noise);
}

void BM_Turn(benchmark::State& state, Data data, Way way) {
  const auto backend = make_cpu_backend({"best", omp_get_max_threads()});
  const Tensor x = values(data);
  const Quantised rows = row_wise(*backend, x, way);
  const Tensor high = dequantised(rows, false);
  Tensor ends(Dtype::i32, {1});
  ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(kRows);
  Quantised out{Tensor(Dtype::e4m3, {kColumns, kRows}),
                Tensor(Dtype::f32, {kRows / kScaledBlock, kColumns})};
  for (auto _ : state) {
    state.SetIterationTime(bench::seconds([&] { turn(*backend, way, rows, high, ends, out); }));
  }
  const Tensor turned = dequantised(out, true);
  Index changed = 0;
  double worst = 0.0;
  for (Index i = 0; i < high.elements(); ++i) {
    const double owed = high.as<float>()[i];
    const double found = turned.as<float>()[i];
    changed += owed != found;
    if (owed != 0.0) worst = std::max(worst, std::fabs(found - owed) / std::fabs(owed));
  }
  state.counters["changed_%"] =
      100.0 * static_cast<double>(changed) / static_cast<double>(high.elements());
  state.counters["max_relative"] = worst;
  state.counters["sqnr_rows_dB"] = changed == 0 ? INFINITY : sqnr(high, turned);
  state.counters["sqnr_x_dB"] = sqnr(x, turned);
  state.counters["sqnr_once_dB"] = sqnr(x, high);
}

void register_all() {
  const std::pair<const char*, Data> kinds[] = {{"normal", Data::normal},
                                                {"heavy_tailed", Data::heavy_tailed}};
  const std::pair<const char*, Way> ways[] = {{"requantize_any_scale", Way::any_scale},
                                              {"requantize_power_of_2", Way::power_of_2},
                                              {"round", Way::round},
                                              {"keep_mantissa", Way::keep_mantissa},
                                              {"flush", Way::flush}};
  for (const auto& [kind, data] : kinds) {
    for (const auto& [name, way] : ways) {
      const std::string title = std::string("row_to_column/") + kind + "/" + name;
      benchmark::RegisterBenchmark(
          title.c_str(),
          [data = data, way = way](benchmark::State& state) { BM_Turn(state, data, way); })
          ->UseManualTime()
          ->Iterations(5)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace mxo
