// Element types by name.
#include "formats/dtype.h"

#include <string>

#include "formats/nearest_name.h"

namespace mxo {

Dtype dtype_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const DtypeRow& row : kDtypes) {
    if (row.name == name) return row.dtype;
    if (is_minifloat8(row.dtype) || is_wide_float(row.dtype) || row.dtype == Dtype::e8m0) {
      known.push_back(row.name);
    }
  }
  throw Error(Fault::argument, unknown_name("format", name, known));
}

}  // namespace mxo
