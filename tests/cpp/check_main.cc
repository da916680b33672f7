// Runs all tests, or the tests of the files whose names contain the first argument.  The exit code is 1 if a test
// failed or if no test ran.
#include <cstring>

#include "check.h"

int main(int count, char** arguments) {
  int ran = 0;
  for (const check::Test& test : check::Tests()) {
    if (count > 1 && std::strstr(test.file, arguments[1]) == nullptr) continue;
    const int before = check::Failures();
    test.run();
    std::printf("%s %s\n", check::Failures() == before ? "ok" : "FAILED", test.name);
    std::fflush(stdout);
    ++ran;
  }
  return check::Failures() == 0 && ran > 0 ? 0 : 1;
}
