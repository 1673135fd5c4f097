// The exact product of a backend, and what lies beside it.
#include "golden/judge/beside_exact.h"

#include <cmath>
#include <memory>
#include <mutex>

#include "formats/error.h"

namespace mxo {
namespace {

/// The call with an exact sum, into f32.
Tensor exact_product(Backend& backend, std::string_view op, std::string_view output,
                     const NamedTensors& inputs, const Parameters& set) {
  Parameters exact;
  for (const auto& [key, value] : set.all()) {
    if (!key.starts_with("sum")) exact.set(key, value);
  }
  exact.set("out", "f32");
  return std::move(call_operator(backend, op, inputs, exact).at(std::string(output)));
}

/// True where |value - real| <= relative |real| whatever number `real` it is that rounds to e.
bool is_beside(double value, double e, double relative) {
  const double rounded = std::fabs(e) * 0x1p-24 + 0x1p-150;
  // False for what is infinite or no number.
  return std::fabs(value - e) + rounded <= relative * (std::fabs(e) - rounded) * (1 - 0x1p-40);
}

}  // namespace

std::function<std::vector<bool>(const OutputBlock&, const std::function<double(Index)>& value)>
beside_exact(Backend& backend, std::string_view op, std::string_view output,
             const NamedTensors& inputs, const Parameters& set, double least_relative) {
  struct Product {
    std::once_flag once;
    Tensor exact;
  };
  const auto product = std::make_shared<Product>();
  return
      [&backend, &inputs, op = std::string(op), output = std::string(output), set, least_relative,
       product](const OutputBlock& block, const std::function<double(Index)>& value) {
        std::call_once(product->once, [&] {
          try {
            product->exact = exact_product(backend, op, output, inputs, set);
          } catch (const Error&) {  // no product: each element is decided on its own
          }
        });
        std::vector<bool> beside;
        if (product->exact.elements() == 0) return beside;
        const float* exact = product->exact.as<float>();
        const Index columns = product->exact.shape().back();
        for (Index row = block.row_begin; row < block.row_end; ++row) {
          for (Index i = row * columns + block.column_begin; i < row * columns + block.column_end;
               ++i) {
            beside.push_back(is_beside(value(i), static_cast<double>(exact[i]), least_relative));
          }
        }
        return beside;
      };
}

}  // namespace mxo
