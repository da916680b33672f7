// Parser of text records: no byte outside of a record is read, and strings stay valid. Values and errors are compared
// with a twin and with TensorFlow in tests/unit/data/test_columns.py and tests/tf/test_csv_records.py.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/csv_parser.h"

using namespace ascpipe;
using check::Has;

namespace {

CsvOptions AllTypes() {
  CsvOptions options;
  for (int type = 0; type < 6; ++type) {
    options.columns.push_back({type, static_cast<CsvType>(type), type % 2 == 0, 5, 0.5, "default"});
  }
  return options;
}

// Arrays for the values of `count` records.
struct Arrays {
  explicit Arrays(std::size_t count) : int32(count), int64(count), hex(count), floats(count), doubles(count) {
    strings.resize(count);
    values.arrays = {int32.data(), int64.data(), floats.data(), doubles.data(), strings.data(), hex.data()};
  }

  std::vector<std::int32_t> int32;
  std::vector<std::int64_t> int64, hex;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<ByteRange> strings;
  CsvValues values;
};

// The record is in memory of exactly its size, so that the address sanitizer finds reads beyond it.
bool Parse(const CsvParser& parser, const std::string& record, Arrays* arrays, std::string* error) {
  const std::unique_ptr<char[]> exact(new char[record.size()]);
  record.copy(exact.get(), record.size());
  return parser.Parse({exact.get(), record.size()}, 0, &arrays->values, error);
}

}  // namespace

TEST(AllTypesAreParsed) {
  std::unique_ptr<CsvParser> parser;
  CHECK_EQ(CsvParser::Make(AllTypes(), &parser).text(), "");
  Arrays arrays(2);
  std::string error;
  const std::string records[] = {"-7, 9000000000 ,1.5,-2.5e-3,\"a \"\"b\"\"\",00ff00FF", ",1,,1e300,,a"};
  for (int i = 0; i < 2; ++i) CHECK(parser->Parse({records[i].data(), records[i].size()}, i, &arrays.values, &error));
  CHECK(arrays.int32 == std::vector<std::int32_t>({-7, 5}));
  CHECK(arrays.int64 == std::vector<std::int64_t>({9000000000, 1}));
  CHECK(arrays.floats == std::vector<float>({1.5f, 0.5f}));
  CHECK(arrays.doubles == std::vector<double>({-2.5e-3, 1e300}));
  CHECK(arrays.hex == std::vector<std::int64_t>({0xff00ff, 10}));
  CHECK_EQ(std::string(arrays.strings[0].data, arrays.strings[0].size), "a \"b\"");
  CHECK_EQ(std::string(arrays.strings[1].data, arrays.strings[1].size), "default");
}

TEST(ARecordThatIsCutOffAnywhereIsReadWithinItsBytes) {
  std::unique_ptr<CsvParser> parser;
  CHECK_EQ(CsvParser::Make(AllTypes(), &parser).text(), "");
  Arrays arrays(1);
  std::string error;
  const std::string whole =
      "-123456789,1234567890123456789,-1.234567e-10,12345678901234567e-5,\"a\"\"b\nc\",0123456789abcdef";
  CHECK(Parse(*parser, whole, &arrays, &error));
  for (std::size_t size = 0; size < whole.size(); ++size) Parse(*parser, whole.substr(0, size), &arrays, &error);
  CHECK(!Parse(*parser, "", &arrays, &error));
  CHECK_EQ(error, "Expect 6 fields but have 0 in record 0");
}

TEST(AnyBytesAreARecordOrAnError) {
  std::unique_ptr<CsvParser> parser, selecting;
  CHECK_EQ(CsvParser::Make(AllTypes(), &parser).text(), "");
  CsvOptions options = AllTypes();
  options.selects = true;
  options.na_value = "1";
  for (CsvColumn& column : options.columns) column.field *= 2;
  CHECK_EQ(CsvParser::Make(options, &selecting).text(), "");
  Arrays arrays(1);
  std::mt19937 random(1);
  int valid = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    const bool selects = turn % 3 == 1;
    const int fields = turn % 3 == 2 ? 7 : selects ? 11 : 6;
    std::string record;
    for (int field = 0; field < fields; ++field) {
      const std::size_t size = random() % 6;
      for (std::size_t i = 0; i < size; ++i) record += "1111222aef-.e \"\n\xff"[random() % (turn % 2 == 0 ? 17 : 7)];
      record += field + 1 < fields ? "," : "";
    }
    std::string error;
    const bool is_valid = Parse(selects ? *selecting : *parser, record, &arrays, &error);
    CHECK(is_valid == error.empty());
    valid += is_valid ? 1 : 0;
  }
  CHECK(valid > 1000 && valid < 10000);
}

TEST(OptionsWithoutMeaningAreRefused) {
  std::unique_ptr<CsvParser> parser;
  CsvOptions options = AllTypes();
  options.columns[3].field = 2;
  CHECK(
      Has(CsvParser::Make(options, &parser).text(), "A column reads field 2 and follows a column that reads field 2"));
  options = AllTypes();
  options.delimiter = '\n';
  CHECK(Has(CsvParser::Make(options, &parser).text(), "E332"));
  CHECK(parser == nullptr);
}
