// Windows, and altered calls run in them.
#include "golden/explain/confirm/altered_call_runner.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "formats/error.h"
#include "golden/explain/find/product/sides.h"

namespace mxo {
namespace {

constexpr Index kLeastMended = 8;  ///< elements, for another arithmetic to be told
constexpr Index kMostOff = 8;      ///< of 16-bit outputs one in so many may be off

/// Units in the last place that another arithmetic may be off, and that say more than it does.
struct Units {
  std::uint64_t near = 0;
  std::uint64_t far = 0;
};

Units units_of(Dtype dtype) {
  if (dtype == Dtype::f32) return {64, 4096};
  return dtype == Dtype::bf16 || dtype == Dtype::f16 ? Units{1, 16} : Units{};
}

/// Part of the failing indices spread over their range, and some that do not fail.
std::vector<Index> spread(const std::vector<Index>& failing, Index extent, Index most) {
  std::set<Index> kept;
  const auto take = [&kept](Index n, Index count, auto at) {
    for (Index i = 0; i < std::min(n, count); ++i)
      kept.insert(at(count > 1 ? i * (count - 1) / (std::min(n, count) - 1) : 0));
  };
  take(std::max<Index>(2, most * 3 / 4), static_cast<Index>(failing.size()),
       [&](Index i) { return nth(failing, i); });
  take(std::max<Index>(2, most / 4), extent, [](Index i) { return i; });
  return {kept.begin(), kept.end()};
}

/// How small a part of the output a cause of this kind may be: another sum is that of all, unless
/// it stands beside what may be of a part.
Unit least_unit(const Hypotheses& hypotheses, const Call& call) {
  if (std::ranges::all_of(hypotheses, &Hypothesis::is_of_all)) return Unit::whole;
  // Columns of a product are windows, those of a router slots that follow from one another.
  const bool elementwise = call.has("x") || call.has("codes");
  return elementwise && !call.has("group_ends") ? Unit::line : Unit::segment;
}

/// True where row r of every output is made of row r of x alone, and x is large.
bool rows_stand_alone(const Call& call, const std::vector<Output>& outputs) {
  if (!call.has("x") || call.has("group_ends") || call.has("probs") ||
      call.input("x").rank() != 2 || call.input("x").elements() < (Index{1} << 16)) {
    return false;
  }
  const bool rule =
      call.op == "cast" || call.op == "swiglu" ||
      (call.op.starts_with("quantize") && call.set.text("block", "1x32").starts_with("1x") &&
       call.set.text("scale_layout", "row_major") == "row_major");
  return rule && std::all_of(outputs.begin(), outputs.end(), [&](const Output& o) {
           const bool column = o.expected->rank() == 1 && o.columns == call.input("x").extent(0);
           return !column && o.rows == call.input("x").extent(0);
         });
}

/// Rows of a patch, or its columns, in which a model is what is expected.
std::vector<std::uint8_t> idle_lines(const Output& output, const Variant& patch, bool columns) {
  std::vector<std::uint8_t> idle((columns ? patch.columns : patch.rows).size(), 1);
  Index at = 0;
  for (std::size_t r = 0; r < patch.rows.size(); ++r) {
    for (std::size_t c = 0; c < patch.columns.size(); ++c) {
      const Index i = patch.rows[r] * output.columns + patch.columns[c];
      if (bits_at(patch.model, at++) != output.expected_bits(i)) idle[columns ? c : r] = 0;
    }
  }
  return idle;
}

/// By what floats of an output may be off however near they are to zero; of other types 0.
double quiet_of(const Output& output) {
  if (units_of(output.expected->dtype()).near == 0) return 0.0;
  const ElementReader read(output.expected->dtype());
  double sum = 0.0;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    const double v = read(output.actual_bits(i)).value;
    sum += std::isfinite(v) ? v * v : 0.0;
  }
  return kQuiet * std::sqrt(sum / static_cast<double>(output.compared_rows * output.columns));
}

/// Adds how near a patch comes to the actual output, but for the last bits of floats, up to the
/// first element that is beyond them.
void hold_last_bits(const Output& output, const Variant& patch, double quiet, LastBits& sum) {
  if (sum.beyond > 0) return;
  const ElementReader read(output.expected->dtype());
  const Units units = units_of(output.expected->dtype());
  const bool wide = units.near > 1;
  Index at = 0;
  for (const Index row : patch.rows) {
    for (const Index column : patch.columns) {
      const Index i = row * output.columns + column;
      const std::uint64_t bits = output.actual_bits(i);
      const auto apart = [&](std::uint64_t other) -> std::uint64_t {
        const Element a = read(bits);
        const Element b = read(other);
        if (bits == other || (units.near > 0 && a.nan && b.nan)) return 0;
        if (a.nan || b.nan || units.near == 0) return ~std::uint64_t{0};
        return ulp_distance(a.order, b.order);
      };
      const std::uint64_t model = bits_at(patch.model, at++);
      const std::uint64_t off = apart(model);
      if (off <= units.near) {
        sum.units = std::max(sum.units, off);
      } else if (std::abs(read(bits).value - read(model).value) <= quiet) {
        sum.quiet = true;
      } else {
        ++sum.beyond;
        return;
      }
      sum.off += !wide && off > 0;
      const std::uint64_t before = apart(output.expected_bits(i));
      sum.mended += before > units.far;
      sum.differing += wide || units.near == 0 ? 0 : before > 0;
    }
  }
}

/// Whether the operands of both calls have the same types and shapes.
bool has_shapes_of(const Call& call, const Call& altered) {
  return std::ranges::equal(call.inputs, altered.inputs, [](const auto& a, const auto& b) {
    return a.first == b.first && a.second->dtype() == b.second->dtype() &&
           a.second->shape() == b.second->shape();
  });
}

}  // namespace

void resize_rows(Tensor& t, const Tensor& like) {
  if (t.rank() == 2 && like.rank() == 2 && t.extent(1) == like.extent(1) &&
      t.extent(0) != like.extent(0) && t.dtype() == like.dtype())
    t = resized(t, like.shape());
}

std::optional<NamedTensors> outputs_under(Backend& backend, const Call& altered,
                                          const Hypotheses& hypotheses) {
  const auto own = std::find_if(hypotheses.begin(), hypotheses.end(),
                                [](const Hypothesis* h) { return h->run != nullptr; });
  try {
    NamedTensors out =
        own == hypotheses.end() ? run_call(backend, altered) : (*own)->run(backend, altered);
    for (const Hypothesis* h : hypotheses)
      if (h->rewrite && !h->rewrite(altered, out)) return std::nullopt;
    return out;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool LastBits::all() const {
  return beyond == 0 && mended >= kLeastMended && off * kMostOff <= differing;
}

bool RunResult::gives_the_same(const RunResult& other) const {
  return std::abs(broken - other.broken) * 8 <= broken &&
         std::ranges::equal(credits, other.credits, {}, &VariantMatch::mask, &VariantMatch::mask);
}

bool RunResult::gives_less(const RunResult& other) const {
  const auto within = [](const VariantMatch& a, const VariantMatch& b) {
    return std::ranges::equal(a.mask, b.mask, std::ranges::less_equal{});
  };
  return fixed < other.fixed && std::ranges::equal(credits, other.credits, within);
}

AlteredCallRunner::AlteredCallRunner(Backend& backend, const Call& call,
                                     std::vector<Output>& outputs)
    : backend_(backend), call_(call), outputs_(outputs) {
  if (outputs.size() == 1) product_ = product_of(call);
  if (product_ && outputs.front().name != product_->output) product_.reset();
  by_rows_ = rows_stand_alone(call, outputs);
  for (const Output& o : outputs) quiet_.push_back(product_ ? 0.0 : quiet_of(o));
}

double AlteredCallRunner::work(Index rows, Index columns) const {
  if (!product_) return 0.0;
  const double lines = static_cast<double>(rows) * static_cast<double>(columns);
  return lines * static_cast<double>(product_->k);
}

Window AlteredCallRunner::failing() const {
  // Of a weight gradient a line is a row of every group.
  const Index lines = product_ ? product_->a_lines : outputs_.front().compared_rows;
  std::vector<std::uint8_t> bad(static_cast<std::size_t>(lines));
  for (const Output& o : outputs_)
    for (Index r = 0; r < o.compared_rows; ++r)
      if (o.differs_in(r * o.columns, o.columns)) nth(bad, r % lines) = 1;
  Window window{marked(bad), {}};
  if (product_) window.columns = failing_columns(window.rows);
  return window;
}

std::vector<Index> AlteredCallRunner::failing_columns(const std::vector<Index>& rows) const {
  const Output& y = outputs_.front();
  std::vector<std::uint8_t> bad(static_cast<std::size_t>(y.columns));
  for (const Index line : rows) {
    for (Index r = line; r < y.compared_rows; r += product_->a_lines)
      for (Index c = 0; c < y.columns; ++c) nth(bad, c) |= y.mark(r, c) == Mark::differs;
  }
  return marked(bad);
}

void AlteredCallRunner::choose(Index rows, Index columns) {
  whole_ = false;
  if (!slices()) return;
  const Index lines =
      product_ && product_->wgrad ? product_->a_lines : outputs_.front().compared_rows;
  window_.rows = spread(failing().rows, lines, rows);
  if (!product_) return;
  // Where few elements fail, columns are those that do in the rows that were taken.
  const std::vector<Index> own = failing_columns(window_.rows);
  window_.columns = whole_columns(*product_, spread(own, product_->n, columns), 2 * columns);
  // Of columns that share scales only the first are kept: some of those that fail must be.
  std::vector<Index> kept;
  std::set_intersection(own.begin(), own.end(), window_.columns.begin(), window_.columns.end(),
                        std::back_inserter(kept));
  if (!kept.empty()) return;
  const std::vector<Index> more = whole_columns(*product_, own, columns);
  std::vector<Index> both;
  std::set_union(window_.columns.begin(), window_.columns.end(), more.begin(), more.end(),
                 std::back_inserter(both));
  window_.columns = std::move(both);
}

bool AlteredCallRunner::alters_no_more(const Hypotheses& hypotheses) {
  if (!windowed()) return true;
  const auto most = static_cast<Index>(kHostWork / std::max(1.0, work(1, product_->n)));
  take({evenly_spread(range_of(product_->a_lines), std::max<Index>(1, most)),
        range_of(product_->n)});
  const std::optional<RunResult> trial = run(hypotheses);
  return trial && trial->broken == 0;
}

bool AlteredCallRunner::choose_moved_rows(const Hypothesis& moves_ends) {
  const std::optional<Call> call = altered({&moves_ends});
  const std::optional<Product> now = call ? product_of(*call) : std::nullopt;
  if (!product_ || product_->wgrad || !now) return false;
  const Index lines = product_->a_lines;
  std::vector<std::uint8_t> moved(static_cast<std::size_t>(lines) + 2);  // from row -1 on
  for (Index r = 0; r < lines; ++r)
    if (group_of_row(*product_, r) != group_of_row(*now, r))
      std::fill_n(moved.begin() + r, 3, std::uint8_t{1});
  std::vector<Index> rows = marked({moved.begin() + 1, moved.end() - 1});
  if (rows.empty()) return false;
  std::vector<Index> columns = evenly_spread(failing_columns(failing().rows), 16);
  choose(Window{std::move(rows), std::move(columns)});
  return true;
}

void AlteredCallRunner::choose(Window window) {
  if (product_) {
    const auto most = std::max<Index>(64, 2 * static_cast<Index>(window.columns.size()));
    window.columns = whole_columns(*product_, window.columns, most);
  }
  window_ = std::move(window);
}

Window AlteredCallRunner::widened(Window window) const {
  if (product_) window.columns = whole_columns(*product_, window.columns, product_->n);
  return window;
}

std::optional<Call> AlteredCallRunner::altered(const Hypotheses& hypotheses) const {
  Call altered = call_;
  try {
    for (const Hypothesis* h : hypotheses) {
      // Elements that were measured are those of operands of their own shapes.
      if (h->measured && !has_shapes_of(call_, altered)) return std::nullopt;
      if ((!product_ || !h->local) && !h->alter(altered)) return std::nullopt;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return altered;
}

std::optional<RunResult> AlteredCallRunner::run(const Hypotheses& hypotheses) {
  // What is only read elsewhere is read as the slice needs it.
  std::vector<const Hypothesis*> rest;
  std::vector<const Reading*> readings;
  for (const Hypothesis* h : hypotheses) {
    if (h->readings.empty() || !slices()) {
      rest.push_back(h);
      continue;
    }
    for (const Reading& reading : h->readings) {
      if (!applies(reading, call_)) return std::nullopt;
      readings.push_back(&reading);
    }
  }
  std::optional<Call> call = altered(rest);
  if (!call) return std::nullopt;
  return run(hypotheses, std::move(*call), readings);
}

std::optional<RunResult> AlteredCallRunner::run(const Hypotheses& hypotheses, Call altered,
                                                const std::vector<const Reading*>& readings) {
  // What is altered beside may have left nothing to read.
  for (const Reading* reading : readings)
    if (!applies(*reading, altered)) return std::nullopt;
  try {
    if (product_) {
      const std::optional<Product> now = product_of(altered);
      if (!now) return std::nullopt;
      altered = sliced(altered, *now, window_, readings);
      for (const Hypothesis* h : hypotheses)
        if (h->local && !h->alter(altered)) return std::nullopt;
    }
    if (by_rows_ && !whole_) {
      const Tensor& x = altered.input("x");
      altered.replace("x", readings.empty() ? gathered(x, 0, window_.rows)
                                            : read_gathered(*readings.front(), x, 0, window_.rows));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  std::optional<NamedTensors> out = outputs_under(backend_, altered, hypotheses);
  if (!out) return std::nullopt;
  RunResult trial;
  double least_gain_db = std::numeric_limits<double>::infinity();
  const Unit least = least_unit(hypotheses, call_);
  for (const Output& output : outputs_) {
    const auto at = out->find(output.name);
    if (at == out->end()) return std::nullopt;
    Variant patch;
    if (product_) {
      patch.rows = output_rows(*product_, window_);
      patch.columns = window_.columns;
    } else {
      patch.rows = by_rows_ && !whole_ ? window_.rows : range_of(output.compared_rows);
      patch.columns = range_of(output.columns);
    }
    const auto want = static_cast<Index>(patch.rows.size() * patch.columns.size());
    if (!product_ && !by_rows_) resize_rows(at->second, *output.expected);
    if (at->second.elements() < want ||
        (!product_ && !by_rows_ && at->second.elements() != output.expected->elements()) ||
        size_of(at->second.dtype()) != size_of(output.expected->dtype())) {
      return std::nullopt;
    }
    patch.model = std::move(at->second);
    VariantMatch c = credit(output, patch, least);
    trial.seen += c.seen;
    trial.fixed += c.fixed;
    trial.broken += c.broken;
    trial.gain_db = std::max(trial.gain_db, c.gain_db);
    if (c.seen > 0 || c.broken > 0) least_gain_db = std::min(least_gain_db, c.gain_db);
    // Codes that came right are made as expected.
    if (!product_ && (output.differing > 0 || is_minifloat8(output.expected->dtype())))
      hold_last_bits(output, patch, quiet_[trial.patches.size()], trial.last_bits);
    // Asked where a part is given only.
    trial.idle.push_back(c.fixed > 0 && c.broken > 0 ? idle_lines(output, patch, c.by_columns)
                                                     : std::vector<std::uint8_t>{});
    patch.model = Tensor(patch.model.dtype(), {0});
    trial.patches.push_back(std::move(patch));
    trial.credits.push_back(std::move(c));
  }
  if (trial.seen > 0) trial.least_gain_db = least_gain_db;
  return trial;
}

bool moves_ends_so(const Hypothesis& h, AlteredCallRunner& runner) {
  if (h.target != Target::group_ends || !runner.choose_moved_rows(h)) return true;
  const auto trial = runner.run({&h});
  return trial && !contradicts(h, *trial, runner.outputs());
}

bool gives_call(const AlteredCallRunner& runner, const Candidate& c) {
  return !runner.windowed() && !runner.by_rows() && c.trial.all() &&
         std::all_of(c.trial.credits.begin(), c.trial.credits.end(),
                     [](const VariantMatch& credit) { return credit.astray == 0; });
}

}  // namespace mxo
