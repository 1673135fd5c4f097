// Normal equations, scaled to a diagonal of ones, and their Cholesky factor; short numbers.
#include "golden/explain/find/finding.h"

#include <limits>

namespace mxo {
namespace {

/// y[i] -= x[i] * by, over what they have in common.
void take_off(std::span<double> y, std::span<const double> x, double by) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] -= x[i] * by;
}

/// A symmetric positive definite matrix, its upper half, as its factor; false if it is singular.
/// What is known is taken off whole rows: no sum waits for itself.
bool factorise(std::vector<double>& matrix, std::size_t n) {
  for (std::size_t k = 0; k < n; ++k) {
    const std::span row(matrix.data() + k * n, n);
    if (!(row[k] > 0.0)) return false;
    row[k] = std::sqrt(row[k]);
    for (std::size_t i = k + 1; i < n; ++i) row[i] /= row[k];
    for (std::size_t i = k + 1; i < n; ++i)
      take_off({matrix.data() + i * n + i, n - i}, row.subspan(i), row[i]);
  }
  return true;
}

/// Solves for the factor itself, of a right side that is zero before `first`.
void substitute_forward(const std::vector<double>& factor, std::vector<double>& x,
                        std::size_t first = 0) {
  const std::size_t n = x.size();
  for (std::size_t k = first; k < n; ++k) {
    const std::span row(factor.data() + k * n, n);
    x[k] /= row[k];
    take_off(std::span(x).subspan(k + 1), row.subspan(k + 1), x[k]);
  }
}

void substitute_back(const std::vector<double>& factor, std::vector<double>& x) {
  const std::size_t n = x.size();
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= factor[i * n + k] * x[k];
    x[i] /= factor[i * n + i];
  }
}

}  // namespace

void LeastSquares::add(std::span<const double> features, double value, double weight) {
  for (std::size_t u = 0; u < unknowns_; ++u) rows_.push_back(features[u] * weight);
  values_.push_back(value * weight);
}

double LeastSquares::left(std::span<const double> x) const {
  double sum = 0.0;
  for (std::size_t e = 0; e < values_.size(); ++e) {
    double off = values_[e];
    for (std::size_t u = 0; u < unknowns_; ++u) off -= x[u] * rows_[e * unknowns_ + u];
    sum += off * off;
  }
  return sum;
}

std::optional<LeastSquaresFit> LeastSquares::solved(double ridge) const {
  const std::size_t n = unknowns_;
  std::vector<double> matrix(n * n);
  LeastSquaresFit fit{std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t e = 0; e < values_.size(); ++e) {
    const double* row = rows_.data() + e * n;
    for (std::size_t u = 0; u < n; ++u) {
      if (row[u] == 0.0) continue;
      for (std::size_t v = 0; v <= u; ++v) matrix[u * n + v] += row[u] * row[v];
      fit.x[u] += row[u] * values_[e];
    }
  }
  std::vector<double> scale(n);  // 0: no equation has it
  for (std::size_t u = 0; u < n; ++u) {
    const double own = matrix[u * n + u];
    scale[u] = own > 0.0 ? 1.0 / std::sqrt(own) : 0.0;
    for (std::size_t v = 0; v < u; ++v)
      matrix[v * n + u] = matrix[u * n + v] * (scale[u] * scale[v]);
    matrix[u * n + u] = 1.0 + ridge;
    fit.x[u] *= scale[u];
  }
  if (!factorise(matrix, n)) return std::nullopt;
  substitute_forward(matrix, fit.x);
  substitute_back(matrix, fit.x);
  for (std::size_t u = 0; u < n; ++u) {
    // The diagonal of the inverse: squares of the columns of the inverse of the factor.
    std::vector<double> column(n);
    column[u] = 1.0;
    substitute_forward(matrix, column, u);
    const double square = std::inner_product(column.begin(), column.end(), column.begin(), 0.0);
    fit.x[u] *= scale[u];
    fit.sigma[u] =
        scale[u] > 0.0 ? std::sqrt(square) * scale[u] : std::numeric_limits<double>::infinity();
  }
  fit.left = left(fit.x);
  fit.misfit = std::sqrt(fit.left / static_cast<double>(std::max<std::size_t>(values_.size(), 1)));
  return fit;
}

ShortFactor short_factor(double measured) {
  constexpr double kRatio = 0.002;  // by which it may be off
  for (const double parts : {1.0, 2.0, 4.0, 8.0, 10.0, 3.0, 20.0, 6.0, 100.0}) {
    const double times = std::round(measured * parts) / parts;
    if (!(std::abs(times - measured) <= kRatio * std::abs(measured))) continue;
    std::string text = std::to_string(times);
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
    return {times, text};
  }
  return {};
}

}  // namespace mxo
