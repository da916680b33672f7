// Properties that must be equal on all ranks are compared item by item.
#include "check.h"
#include "peers/likeness.h"

using namespace ascpipe;
using check::Has;

namespace {

const std::string kTable = "table 'user', dim\t8\ntable 'user', padding_keys\t()";

std::string OfSteps(const std::string& first, const std::string& other, const std::string& graphs = "",
                    std::string* apart = nullptr) {
  std::string said;
  return DifferenceOfSteps({first, other}, {graphs, graphs}, apart == nullptr ? &said : apart);
}

}  // namespace

TEST(TextsThatAreAlikeHaveNoDifference) {
  CHECK_EQ(DifferenceOf({kTable, kTable, kTable}), "");
  CHECK_EQ(OfSteps(kTable, kTable), "");
}

TEST(TheFirstItemThatDiffersIsNamedWithBothValuesAndRanks) {
  CHECK_EQ(DifferenceOf({kTable, kTable, "table 'user', dim\t9\ntable 'user', padding_keys\t(1)"}),
           "table 'user', dim is 8 on rank 0 and 9 on rank 2");
  CHECK_EQ(DifferenceOf({"table 'user', dim\t", "table 'user', dim\t9"}),
           "table 'user', dim is nothing on rank 0 and 9 on rank 1");
}

TEST(AnItemThatOneRankDoesNotHaveIsNamed) {
  CHECK_EQ(DifferenceOf({kTable, kTable + "\ntable 'item', dim\t4"}),
           "table 'item', dim is there on rank 1 and not on rank 0");
  CHECK_EQ(DifferenceOf({kTable + "\ntable 'item', dim\t4", kTable}),
           "table 'item', dim is there on rank 0 and not on rank 1");
}

TEST(OfALongValueThePartIsShownInWhichItDiffers) {
  const std::string many(500, 'x');
  const std::string text = DifferenceOf({"pool\t" + many + "a" + many, "pool\t" + many + "b" + many});
  CHECK(text.size() < 300);
  CHECK(Has(text, "xa") && Has(text, "xb") && Has(text, "..."));
}

TEST(TextsThatDifferInTheirOrderHaveADifferenceToo) {
  CHECK_EQ(DifferenceOf({"a\t1\nb\t2", "b\t2\na\t1"}),
           "the order of tables and streams is another one on rank 1 than on rank 0");
}

TEST(VariablesOfStepsAreComparedWhereBothHaveThem) {
  CHECK_EQ(OfSteps("variable w\tfloat [2] ApplyAdam lr 0.1", "variable w\tfloat [2] ApplyAdam lr 0.2"),
           "variable w is float [2] ApplyAdam lr 0.1 on rank 0 and float [2] ApplyAdam lr 0.2 on rank 1");
  CHECK_EQ(OfSteps("variable w\tfloat [2]", "variable v\tfloat [2]"), "");
  CHECK_EQ(OfSteps("table 't', optimizer\tAdam", ""), "table 't', optimizer is there on rank 0 and not on rank 1");
}

TEST(ACollectiveThatTheGraphOfAnotherRankDoesNotHaveIsADifference) {
  const std::string a = "collective a\tHorovodAllreduce", b = "collective b\tHorovodAllreduce";
  std::string apart;
  CHECK_EQ(DifferenceOfSteps({a, b}, {a, b}, &apart), "collective a is there on rank 0 and not on rank 1");
  CHECK_EQ(DifferenceOfSteps({"", b}, {a, b}, &apart), "collective b is there on rank 1 and not on rank 0");
  CHECK_EQ(OfSteps(a, "collective a\tHorovodBroadcast", a),
           "collective a is HorovodAllreduce on rank 0 and HorovodBroadcast on rank 1");
  CHECK_EQ(apart, "");
}

TEST(ACollectiveThatAnotherRankMayRunByItselfIsNone) {
  const std::string a = "collective a\tHorovodAllreduce";
  std::string apart;
  CHECK_EQ(OfSteps(a, "", a, &apart), "");
  CHECK_EQ(apart, "collective a is there on rank 0 and not on rank 1");
}

TEST(WhatElseDiffersIsSaidBeforeNamesOfCollectives) {
  CHECK_EQ(OfSteps("collective a\tx\nvariable w\t1", "collective b\tx\nvariable w\t2"),
           "variable w is 1 on rank 0 and 2 on rank 1");
}
