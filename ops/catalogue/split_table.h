// sum.split=table: the parts that cuBLASLt's heuristics name for a product.
#pragma once

#include <string>
#include <string_view>

#include "ops/catalogue.h"
#include "ops/grouped_matmul.h"

namespace mxo {

/// Throws Error(argument) where sum.machine is given without the table.
bool wants_split_table(const Parameters& set);
/// `set` as sum_from takes it, its sum.split and sum.machine being the table's business.
Parameters without_split_table(const Parameters& set);

/// The parts of one dense product, of all rows of x by the one matrix of w.  Throws
/// Error(unsupported) where the table has no such product: another kind, several matrices, an N x K
/// or number of rows that it does not list.
int split_by_table(std::string_view name, const GroupedMatmul& op, const Parameters& set);

/// Whose table decides a call that does not say it: a sentence for its verdict; else empty.
std::string split_table_note(const Parameters& set);

}  // namespace mxo
