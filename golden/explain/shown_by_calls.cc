// What outputs say by themselves, then what altered calls give.
#include <algorithm>
#include <iterator>

#include "golden/explain/compared_outputs.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/score.h"
#include "golden/explain/shown.h"

namespace mxo {

std::vector<Claim> shown_by_outputs(const Call& call, std::vector<Output>& outputs,
                                    const NamedTensors& expected) {
  mark_what_follows(call, outputs);
  // Scales that moved beside codes that are right were made of no other amax.
  const auto is_codes = [](const Output& o) { return o.name == "codes" && o.differing == 0; };
  const bool right = std::any_of(outputs.begin(), outputs.end(), is_codes);
  std::vector<Claim> claims = recover_zero_blocks(call, outputs);
  if (claims.empty()) {
    // What one cause of the scales gives, codes and all, is not NaN or zeros here and there.
    const Weighing before(outputs);
    std::vector<Claim> whole = recover_quantiser(call, outputs);
    if (whole.size() == 1 &&
        ((whole.front().id == "scale.amax" && !right) || whole.front().id == "scale.rule") &&
        left_of(outputs) == 0 && before.names(whole, outputs))
      return whole;
    before.restore(outputs);
  }
  for (Output& o : outputs) {
    const Weighing before(outputs);
    std::vector<Claim> by_value = recover_by_value(call, o);
    if (before.names(by_value, outputs, kFamily - before.place_told(outputs))) {
      append(claims, std::move(by_value));
    } else {
      before.restore(outputs);
    }
  }
  const auto add = [&](const auto& find) { append(claims, named_by(outputs, find)); };
  for (Output& o : outputs) {
    for (const auto& recovered : {recover_stride, recover_running, recover_late})
      add([&] { return recovered(o); });
    append(claims, recover_padding(call, o, expected));
    for (const auto& recovered :
         {recover_unwritten, recover_row_order, recover_moved, recover_moved_runs, recover_added})
      add([&] { return recovered(o); });
  }
  for (Output& o : outputs) {
    if (right && o.name == "scales") add([&] { return recover_exchanged(o); });
  }
  add([&] { return recover_quantiser(call, outputs); });
  return claims;
}

std::vector<Claim> shown_by_runs(Backend& backend, const Call& call, std::vector<Output>& outputs,
                                 const Progress& progress, Nearest& nearest, Extent extent) {
  std::vector<Hypothesis> list;
  for (const Output& o : outputs) {
    add_bytes_as_nan(call, o, list);
    add_measured_rows(call, o, list);
    add_measured_scales(call, o, list);
    add_measured_blocks(call, o, list);
  }
  add_measured_slots(backend, call, outputs, list);
  add_measured_slot_rows(backend, call, outputs, list);
  for (Hypothesis& h : list) h.measured = true;
  for (Hypothesis& h : hypotheses_about(call)) list.push_back(std::move(h));
  add_quantised_operands(backend, call, list);
  // What is known of some lines only is said where nothing is known of all of them.
  std::vector<Hypothesis> of_lines;
  const auto is_of_lines = [](const Hypothesis& h) {
    return !h.only.rows.empty() || !h.only.columns.empty();
  };
  std::copy_if(list.begin(), list.end(), std::back_inserter(of_lines), is_of_lines);
  std::erase_if(list, is_of_lines);
  const auto searched = [&](std::vector<Hypothesis> some) {
    return search(backend, call, outputs, std::move(some), progress, nearest, extent);
  };
  std::vector<Claim> claims = searched(std::move(list));
  if (extent == Extent::all) return claims;
  list.clear();
  for (const Output& o : outputs) {
    add_decoded_codes(call, o, list);
    add_misread_parts(call, o, list);
    add_measured_lanes(call, o, list);
  }
  for (Hypothesis& h : list) h.measured = true;
  add_stale_stages(call, list);
  for (std::vector<Hypothesis>* more : {&list, &of_lines}) {
    if (left_of(outputs) > 0 && !more->empty()) append(claims, searched(std::move(*more)));
  }
  return claims;
}

}  // namespace mxo
