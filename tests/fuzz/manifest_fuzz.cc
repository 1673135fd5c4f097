// Any text as a manifest: refused with an Error, or read, written and read as the same.

#include "golden/files/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mxo;
  Manifest manifest;
  try {
    manifest = parse_manifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
  } catch (const Error&) {
    return 0;
  }
  const std::string text = to_json(manifest);
  if (to_json(parse_manifest(text, "again")) != text) std::abort();
  return 0;
}
