// The step as the capture's producer wrote it: every elementwise operation rounds once.
#include "tools/train/replay.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "formats/error.h"
#include "formats/tensor.h"
#include "golden/files/sha256.h"
#include "ops/elementwise.h"
#include "ops/grouped_linear.h"
#include "ops/sums.h"

namespace mxo::tools {
namespace {

constexpr const char* kModes[] = {"rceil", "floor"};
constexpr float kLossScale = 0x1p-5f;
constexpr float kLearningRate = 0x1p-7f;

/// A view of bf16 bits as numbers.
float get(const Tensor& t, Index i) { return decode(t.as<BF16>()[i]); }
void put(Tensor& t, Index i, float value) { t.as<BF16>()[i] = encode<kBF16>(value); }

/// One run of the capture and the state of its repetition.
class Run {
 public:
  Run(Backend& backend, const TensorFile& capture, std::string mode)
      : backend_(backend), capture_(capture), mode_(std::move(mode)) {
    x_ = of("x", Dtype::bf16, 2);
    target_ = of("target", Dtype::bf16, 2);
    ends_ = of("group_ends", Dtype::i32, 1);
    w1_ = of("w1.0", Dtype::f32, 3);
    w2_ = of("w2.0", Dtype::f32, 3);
    const bool fits =
        target_.shape() == x_.shape() && w1_.extent(0) == ends_.extent(0) &&
        w1_.extent(2) == x_.extent(1) &&
        w2_.shape() == std::vector<Index>{w1_.extent(0), w1_.extent(2), w1_.extent(1)};
    if (!fits) throw Error(Fault::file, "replay: " + mode_ + ": shapes of x, w1, w2 do not fit");
    find_checks();
  }

  int steps() const { return last_; }
  /// What of the capture was read, by name.
  const std::set<std::string>& used() const { return used_; }

  /// One step, then the comparisons that the capture asks for at its end.
  void step(int number, std::vector<ReplayRow>& rows) {
    const MirroredTensor x(backend_, x_);
    const MirroredTensor ends(backend_, ends_);
    const BackendTensor w1 = rounded(w1_);
    const BackendTensor w2 = rounded(w2_);
    BackendTensor y1_made(backend_, Dtype::bf16, {x_.extent(0), w1_.extent(1)});
    const SavedLinear first = grouped_linear(
        backend_, linear(x.operand(), w1.operand(), ends.operand(), y1_made.result()));
    const Tensor y1 = on_host(backend_, y1_made.operand());
    Tensor relu = y1;
    for (Index i = 0; i < relu.elements(); ++i) put(relu, i, std::max(get(y1, i), 0.0f));
    const MirroredTensor h(backend_, std::move(relu));
    BackendTensor y_made(backend_, Dtype::bf16, {x_.extent(0), x_.extent(1)});
    const SavedLinear second = grouped_linear(
        backend_, linear(h.operand(), w2.operand(), ends.operand(), y_made.result()));
    const Tensor y = on_host(backend_, y_made.operand());

    Tensor loss(Dtype::bf16, y.shape());
    for (Index i = 0; i < loss.elements(); ++i) {
      put(loss, i, get(y, i) - get(target_, i));
      put(loss, i, get(loss, i) * kLossScale);
    }
    const MirroredTensor dy(backend_, std::move(loss));
    BackendTensor dh_made = like(h.operand());
    BackendTensor dw2 = like(w2.operand());
    grouped_linear_backward(backend_, second, {dy.operand(), dh_made.result(), dw2.result(), {}});
    Tensor masked = on_host(backend_, dh_made.operand());
    for (Index i = 0; i < masked.elements(); ++i) {
      if (!(get(y1, i) > 0.0f)) put(masked, i, 0.0f);
    }
    const MirroredTensor dh(backend_, std::move(masked));
    BackendTensor dw1 = like(w1.operand());
    grouped_linear_backward(backend_, first, {dh.operand(), {}, dw1.result(), {}});

    descend(w1_, on_host(backend_, dw1.operand()));
    descend(w2_, on_host(backend_, dw2.operand()));
    compare(number, "y", y, rows);
    compare(number, "w1", w1_, rows);
    compare(number, "w2", w2_, rows);
  }

 private:
  Tensor of(const std::string& name, Dtype dtype, int rank) {
    const auto at = capture_.tensors.find(mode_ + "." + name);
    if (at == capture_.tensors.end()) {
      throw Error(Fault::file, "replay: the capture has no tensor '" + mode_ + "." + name + "'");
    }
    Tensor t = at->second;
    used_.insert(at->first);
    if (!holds(t, dtype) || t.rank() != rank) {
      throw Error(Fault::file, "replay: " + mode_ + "." + name + ": found " +
                                   describe(t.operand()) + ", needs " +
                                   std::string(name_of(dtype)) + " of rank " +
                                   std::to_string(rank));
    }
    t.reinterpret_as(dtype);
    return t;
  }

  /// u16 is the bits of a bf16.
  static bool holds(const Tensor& t, Dtype dtype) {
    return t.dtype() == dtype || (t.dtype() == Dtype::u16 && dtype == Dtype::bf16);
  }

  /// The steps for which the capture holds something, as a tensor or as a checksum.
  void find_checks() {
    const auto note = [this](std::string_view key) {
      for (const std::string name : {"y", "w1", "w2"}) {
        const std::string prefix = mode_ + "." + name + ".";
        if (key.starts_with(prefix)) last_ = std::max(last_, std::atoi(key.data() + prefix.size()));
      }
    };
    for (const auto& [key, tensor] : capture_.tensors) note(key);
    for (const auto& [key, text] : capture_.metadata) note(key);
  }

  /// In bf16.
  BackendTensor like(const Operand& operand) const {
    return {backend_, Dtype::bf16, operand.extent, operand.rank};
  }
  BackendTensor rounded(const Tensor& master) const {
    const MirroredTensor wide(backend_, master);
    BackendTensor w = like(wide.operand());
    cast(backend_, {wide.operand(), w.result()});
    return w;
  }

  GroupedLinear linear(const Operand& x, const Operand& w, const Operand& ends,
                       const Result& y) const {
    GroupedLinear op;
    op.x = x;
    op.w = w;
    op.group_ends = ends;
    op.recipe = linear_recipe_named("mxfp8_" + mode_);
    op.sum = op.wgrad_sum = sum_named("h200_wgmma_fast", OperandKind::mx);
    op.y = y;
    return op;
  }

  static void descend(Tensor& master, const Tensor& dw) {
    for (Index i = 0; i < master.elements(); ++i) {
      master.as<float>()[i] -= kLearningRate * get(dw, i);
    }
  }

  void compare(int step, const std::string& name, const Tensor& found,
               std::vector<ReplayRow>& rows) {
    const std::string key = mode_ + "." + name + "." + std::to_string(step);
    ReplayRow row{mode_, step, name, found.elements(), 0};
    if (const auto at = capture_.tensors.find(key); at != capture_.tensors.end()) {
      const Tensor& expected = at->second;
      if (expected.shape() != found.shape() || !holds(expected, found.dtype())) {
        throw Error(Fault::file, "replay: " + key + ": found " + describe(expected.operand()) +
                                     ", needs " + describe(found.operand()));
      }
      const std::size_t size = size_of(found.dtype());
      for (std::size_t i = 0; i < found.bytes(); i += size) {
        row.differing += std::memcmp(expected.data() + i, found.data() + i, size) != 0 ? 1 : 0;
      }
    } else if (const auto sum = capture_.metadata.find(key + ".sha256");
               sum != capture_.metadata.end()) {
      const bool same = sum->second == sha256(found.data(), found.bytes());
      row.differing = same ? 0 : row.values;
    } else {
      return;
    }
    used_.insert(capture_.tensors.contains(key) ? key : key + ".sha256");
    rows.push_back(row);
  }

  Backend& backend_;
  const TensorFile& capture_;
  std::string mode_;
  Tensor x_, target_, ends_, w1_, w2_;
  std::set<std::string> used_;
  int last_ = 0;
};

}  // namespace

std::vector<ReplayRow> replay(Backend& backend, const TensorFile& capture,
                              const Progress& progress) {
  std::vector<Run> runs;
  for (const char* mode : kModes) {
    if (capture.tensors.contains(std::string(mode) + ".x"))
      runs.emplace_back(backend, capture, mode);
  }
  if (runs.empty()) {
    throw Error(
        Fault::file,
        "--replay: needs a capture of training steps, found no tensor 'rceil.x' or 'floor.x'");
  }
  std::vector<ReplayRow> rows;
  double done = 0;
  for (Run& run : runs) {
    for (int step = 1; step <= run.steps(); ++step) {
      run.step(step, rows);
      done += 1.0 / (run.steps() * static_cast<double>(runs.size()));
      if (progress) progress(done, "step " + std::to_string(step));
    }
  }
  if (std::all_of(rows.begin(), rows.end(), [](const ReplayRow& row) { return row.values == 0; })) {
    throw Error(Fault::file, "--replay: the capture holds no output or weight of a later step");
  }
  std::set<std::string> used;
  for (const Run& run : runs) used.insert(run.used().begin(), run.used().end());
  const auto need = [&used](const std::string& name) {
    if (used.contains(name)) return;
    throw Error(Fault::file, "--replay: the capture holds '" + name + "', which no step makes");
  };
  for (const auto& [name, tensor] : capture.tensors) need(name);
  for (const auto& [name, text] : capture.metadata) {
    if (name.ends_with(".sha256")) need(name);
  }
  return rows;
}

}  // namespace mxo::tools
