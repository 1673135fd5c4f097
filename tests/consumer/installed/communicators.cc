// Whether ranks can be processes: argument 1 says if the program was linked with mxo::mpi.
#include <cstdio>
#include <string_view>

#include <mxoracle/backends.h>
#include <mxoracle/communicators.h>

int main(int, char** argv) {
  const bool wanted = std::string_view(argv[1]) == "with";
  std::printf("mpi: %s\n", mxo::why_no_mpi().c_str());
  return mxo::why_no_mpi().empty() == wanted && mxo::make_world("in_process") != nullptr &&
                 mxo::make_backend("cpu") != nullptr
             ? 0
             : 1;
}
