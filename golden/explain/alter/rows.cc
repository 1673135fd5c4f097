// Makers of hypotheses.
#include "golden/explain/alter/rows.h"

#include <algorithm>

namespace mxo {

Hypothesis altered(std::string name, std::string phrase, Alter alter, bool local) {
  return {std::move(name), std::move(phrase), Stage::input, std::move(alter), {}, local};
}

Hypothesis read_locally(std::string name, std::string phrase, Reading reading) {
  return altered(
      std::move(name), std::move(phrase),
      [reading = std::move(reading)](Call& c) { return read_whole(c, reading); }, true);
}

Hypothesis set_to(const std::string& key, const std::string& value, std::string phrase,
                  Stage stage) {
  return {key + "=" + value, std::move(phrase), stage, [key, value](Call& c) {
            c.set.set(key, value);
            return true;
          }};
}

Hypothesis rewritten(std::string name, std::string phrase, Rewrite rewrite) {
  Hypothesis h{std::move(name), std::move(phrase), Stage::output};
  h.rewrite = std::move(rewrite);
  return h;
}

Hypothesis summed(std::string name, std::string phrase, Stage stage, HostSum sum) {
  Hypothesis h{std::move(name), std::move(phrase), stage};
  h.local = true;
  h.run = [sum = std::move(sum)](Backend&, const Call& c) { return host_product(c, sum); };
  return h;
}

bool has_parameter(const Call& call, std::string_view key) {
  const auto& parameters = catalogue_entry(call.op).parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [key](const ParameterSpec& spec) { return spec.key == key; });
}

bool map_floats(Call& call, const std::string& name, float (*to)(float)) {
  if (!call.has(name) || call.input(name).dtype() != Dtype::f32) return false;
  Tensor t = call.input(name);
  std::transform(t.as<float>(), t.as<float>() + t.elements(), t.as<float>(), to);
  call.replace(name, std::move(t));
  return true;
}

}  // namespace mxo
