// check_call, with memory for outputs that takes no room.
#include "golden/judge/checked_outputs.h"

#include <algorithm>
#include <list>

#include <sys/mman.h>

#include "formats/error.h"
#include "formats/memory_room.h"

namespace mxo {

ZeroPages::ZeroPages(std::size_t bytes) : bytes_(bytes + 1) {
  void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw Error(Fault::unsupported, "no address space for the operands");
  data_ = static_cast<std::byte*>(pages);
}

ZeroPages::~ZeroPages() { munmap(data_, bytes_); }

Result view_of_shape(Dtype format, const std::vector<Index>& shape, void* data) {
  Result view;
  view.data = data;
  view.dtype = format;
  view.rank = static_cast<int>(shape.size());
  Index stride = 1;
  for (int d = view.rank; d-- > 0;) {
    view.extent[d] = shape[static_cast<std::size_t>(d)];
    view.stride[d] = stride;
    stride *= view.extent[d];
  }
  return view;
}

std::vector<OutputShape> checked_outputs(std::string_view op, NamedViews views,
                                         const Parameters& parameters) {
  std::vector<OutputShape> outputs;
  std::list<ZeroPages> pages;
  views.make_results([&](std::string_view name, Dtype dtype, const std::vector<Index>& shape) {
    require_room(std::string(op) + ": " + std::string(name), dtype, shape);
    outputs.push_back({std::string(name), dtype, shape});
    Result view = view_of_shape(dtype, shape, nullptr);
    view.data =
        pages.emplace_back(static_cast<std::size_t>(view.elements()) * size_of(dtype)).data();
    return view;
  });
  check_call(op, views, parameters);
  std::sort(outputs.begin(), outputs.end(),
            [](const OutputShape& a, const OutputShape& b) { return a.name < b.name; });
  return outputs;
}

}  // namespace mxo
