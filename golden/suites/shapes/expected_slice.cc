// What the library gives for one slice of a case.
#include "golden/suites/shapes/expected_slice.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>

#include "formats/error.h"
#include "golden/judge/parallel.h"
#include "ops/catalogue.h"

namespace mxo {
namespace {

/// Of few bytes all are kept, else a row.
Region region_of(Index slice, const Box& box, const std::byte* bytes, std::size_t size) {
  constexpr std::size_t kFew = std::size_t{1} << 16;
  Region region{slice, box, digest_of(bytes, size), {}};
  if (size > kFew) size = std::min(kFew, size / static_cast<std::size_t>(box.rows()));
  region.rows.assign(bytes, bytes + size);
  return region;
}

/// The output that `part` is of: one of `shapes`, or `part` itself where a slice is all of it.
OutputShape whole_of(const std::string& name, const Tensor& part, const ShapedCall& call,
                     const std::vector<OutputShape>& shapes) {
  for (const OutputShape& shape : shapes) {
    if (shape.name == name) return shape;
  }
  if (call.cut == Cut::whole) return {name, part.dtype(), part.shape()};
  throw Error(Fault::file,
              call.op + ": " + name + ": the call gives it, the case does not have it");
}

/// How many slices are computed at a time: operands, their parts in other forms and outputs of
/// them all take about 6 GB at most.
int workers_for(const ShapedCall& call, const Crew& crew, std::size_t slices) {
  constexpr double kRoom = 6e9;
  constexpr double kForms = 3;
  if (catalogue_entry(call.op).call_ranks != nullptr) return 1;  // a World runs one call at a time
  const double fit = kRoom / (kForms * std::max(1.0, Slicer(call).most_bytes()));
  const auto most = std::min(crew.threads, static_cast<int>(std::min<std::size_t>(slices, 1024)));
  const int workers = fit < most ? std::max(1, static_cast<int>(fit)) : most;
  const int threads_each = (crew.threads + workers - 1) / workers;
  return std::max(1, std::min(workers, crew.threads / threads_each));
}

}  // namespace

NamedTensors SliceRunner::run(const NamedTensors& inputs) {
  try {
    return call_operator(backend_, call_.op, inputs, call_.set, &world_);
  } catch (const Error& error) {  // a caller's own parameters were checked before any slice
    throw Error(error.fault() == Fault::argument ? Fault::file : error.fault(), error.what());
  }
}

std::vector<Region> regions_of(const Slicer& slicer, const OutputShape& whole,
                               const CallSlice& slice, Index number, const Tensor& part,
                               int threads) {
  constexpr Index kElements = Index{1} << 20;
  const std::optional<Box> place = slicer.place(whole, slice, part.shape());
  if (!place) return {};
  const Box all = whole_box(part.shape());
  const Index step = std::max<Index>(1, kElements / std::max<Index>(1, all.columns()));
  const std::size_t line = static_cast<std::size_t>(all.columns()) * size_of(part.dtype());
  std::vector<Region> regions(static_cast<std::size_t>(ceil_div(all.rows(), step)));
  share_among_threads(static_cast<Index>(regions.size()), threads, [&](Index i) {
    const Index row = i * step;
    const Index end = std::min(all.rows(), row + step);
    const Box box{place->row_begin + row, place->row_begin + end, place->column_begin,
                  place->column_end};
    regions[static_cast<std::size_t>(i)] =
        region_of(number, box, part.data() + static_cast<std::size_t>(row) * line,
                  static_cast<std::size_t>(end - row) * line);
  });
  return regions;
}

void keep_some_rows(std::vector<Region>& regions, std::size_t before) {
  for (Region& region : regions) {
    if ((before & (before - 1)) != 0) region.rows = {};
    ++before;
  }
}

void each_slice(const ShapedCall& call, const std::vector<OutputShape>& shapes, const Crew& crew,
                World& world, const std::function<void(double, SliceOutputs)>& take) {
  const std::vector<CallSlice> slices = Slicer(call).slices();
  const int workers = workers_for(call, crew, slices.size());
  const int threads = std::max(1, crew.threads / workers);  // of each
  std::atomic<std::size_t> next{0};
  std::mutex taking;
  std::map<std::size_t, SliceOutputs> made;  // and not taken: one before them is missing
  std::size_t taken = 0;
  const auto work = [&](SliceRunner& runner) {
    for (std::size_t i = next++; i < slices.size(); i = next++) {
      SliceOutputs outputs;
      for (const auto& [name, part] : runner.run(runner.inputs(slices[i]))) {
        if (part.elements() == 0) continue;
        OutputShape whole = whole_of(name, part, call, shapes);
        std::vector<Region> regions =
            regions_of(runner.slicer(), whole, slices[i], static_cast<Index>(i), part, threads);
        outputs.push_back({std::move(whole), std::move(regions)});
      }
      const std::lock_guard lock(taking);
      made.emplace(i, std::move(outputs));
      for (auto at = made.find(taken); at != made.end(); at = made.find(taken)) {
        ++taken;
        take(static_cast<double>(taken) / static_cast<double>(slices.size()),
             std::move(at->second));
        made.erase(at);
      }
    }
  };
  share_among_threads(workers, workers, [&](Index) {
    try {
      const std::unique_ptr<Backend> backend = crew.backend(threads);
      SliceRunner runner(call, *backend, world, threads);
      work(runner);
    } catch (...) {
      next = slices.size();
      throw;
    }
  });
}

void join(std::vector<ShapedOutput>& all, SliceOutputs more) {
  for (ShapedOutput& part : more) {
    auto at = std::find_if(all.begin(), all.end(), [&part](const ShapedOutput& output) {
      return output.whole.name == part.whole.name;
    });
    if (at == all.end()) at = all.insert(at, {part.whole, {}});
    std::vector<Region>& regions = at->regions;
    keep_some_rows(part.regions, regions.size());
    std::move(part.regions.begin(), part.regions.end(), std::back_inserter(regions));
  }
}

void check_size(const ShapedCall& call, double bytes) {
  constexpr double kMost = 8e9;
  if (bytes <= kMost) return;
  throw Error(Fault::unsupported, call.op + ": cannot be computed in parts, and takes " +
                                      std::to_string(static_cast<Index>(bytes / 1e9)) +
                                      " GB at once; needs a shape of at most 8 GB");
}

}  // namespace mxo
