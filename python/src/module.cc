// mxoracle._core: what the package calls.
#include "python/src/cases.h"
#include "python/src/engine.h"
#include "python/src/errors.h"
#include "python/src/files.h"
#include "python/src/foreign.h"
#include "python/src/judgement.h"
#include "python/src/memory.h"
#include "python/src/prepared.h"
#include "python/src/tables.h"

NB_MODULE(_core, module) {
  using namespace mxo::python;
  nanobind::set_leak_warnings(false);  // arrays that outlive the interpreter keep their memory
  bind_errors(module);
  bind_memory(module);
  bind_cases(module);
  bind_tables(module);
  bind_foreign(module);
  bind_files(module);
  bind_judgement(module);
  bind_engine(module);
  bind_prepared(module);
}
