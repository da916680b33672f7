// Test framework.  A test is a function, and CHECK reports a failed expectation. check_main.cc runs the tests.
#ifndef ASCPIPE_TESTS_CPP_CHECK_H_
#define ASCPIPE_TESTS_CPP_CHECK_H_

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace check {

struct Test {
  const char* file;
  const char* name;
  void (*run)();
};

inline std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

inline int& Failures() {
  static int failures = 0;
  return failures;
}

struct Registration {
  Registration(const char* file, const char* name, void (*run)()) { Tests().push_back(Test{file, name, run}); }
};

inline void Failed(const char* file, int line, const std::string& text) {
  std::printf("%s:%d: %s\n", file, line, text.c_str());
  ++Failures();
}

template <typename A, typename B>
void Equal(const char* file, int line, const char* expression, const A& got, const B& wanted) {
  if (got == wanted) return;
  std::ostringstream text;
  text << expression << " is " << got << ", expected " << wanted;
  Failed(file, line, text.str());
}

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace check

#define TEST(name)                                                             \
  static void name();                                                          \
  static const check::Registration registration_##name(__FILE__, #name, name); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::Failed(__FILE__, __LINE__, "not true: " #condition)
#define CHECK_EQ(got, wanted) check::Equal(__FILE__, __LINE__, #got, got, wanted)

#endif  // ASCPIPE_TESTS_CPP_CHECK_H_
