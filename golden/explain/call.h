// One operator call whose operands are shared, so that altering one does not copy the others.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

struct Call {
  std::string op;
  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> inputs;
  Parameters set;

  bool has(std::string_view name) const { return inputs.find(name) != inputs.end(); }
  const Tensor& input(std::string_view name) const { return *inputs.find(name)->second; }
  void replace(const std::string& name, Tensor tensor) {
    inputs.insert_or_assign(name, std::make_shared<const Tensor>(std::move(tensor)));
  }
  /// One of the products y[r, n] = sum over k of x[r, k] w[g, n, k].
  bool is_product() const;
};

Call make_call(std::string_view op, const NamedTensors& inputs, const Parameters& set);
NamedTensors run_call(Backend& backend, const Call& call);

/// Rows and columns of y that a slice keeps, ascending.
struct Window {
  std::vector<Index> rows;
  std::vector<Index> columns;
};

/// The product of the kept rows of x and the kept rows of w; group_ends follow.  Block-wise
/// scales of w are shared by 128 columns, so there every column stays.
Call sliced(const Call& product, const Window& slice);
/// The kept part of y.
Tensor sliced_result(const Tensor& y, const Window& slice);
/// Rows of y before the last group end.
Index owed_rows(const Call& product);

}  // namespace mxo
