#include "graph/step_facts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "core/core_status.h"
#include "peers/likeness.h"

namespace ascpipe {

using tensorflow::DataType;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

constexpr std::size_t kMostNodes = 300;  // limit of the search for the constants of a parameter

bool BeginsWith(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }

bool IsVariable(const Node& node) { return Is(&node, {"VarHandleOp", "Variable", "VariableV2"}); }

// Returns true for a collective of Horovod in which all ranks take part. Returns false for a collective of a process
// set.
bool IsCollective(const Node& node) {
  const std::string& type = node.type_string();
  if (!BeginsWith(type, "Horovod")) return false;
  const auto is = [&type](const char* kind) { return type.find(kind) != std::string::npos; };
  const char* const kinds[] = {"Allreduce", "Allgather", "Broadcast", "Alltoall", "Reducescatter", "Barrier", "Join"};
  return IntOf(&node, "process_set_id") <= 0 && std::any_of(std::begin(kinds), std::end(kinds), is);
}

// Returns the name by which Horovod matches tensors of different ranks.
std::string NameOf(const Node& collective) {
  const std::string& name = collective.name();
  return IsTrue(collective, "ignore_name_scope") ? name.substr(name.rfind('/') + 1) : name;
}

// Returns the shortest decimal text that is parsed as the value `number`.
template <typename Number>
std::string Shortest(Number number) {
  for (int digits = 6;; ++digits) {
    std::ostringstream out;
    out.precision(digits);
    out << number;
    if (digits >= 17 || static_cast<Number>(std::strtod(out.str().c_str(), nullptr)) == number) return out.str();
  }
}

// Reads the only element of a constant. Returns false if the node is not a constant or has several elements.
bool NumberOf(const Node* node, std::string* number) {
  tensorflow::Tensor tensor;
  if (!ReadTensor(node, &tensor) || tensor.NumElements() != 1) return false;
  switch (tensor.dtype()) {
    case tensorflow::DT_FLOAT:
      *number = Shortest(tensor.flat<float>()(0));
      return true;
    case tensorflow::DT_DOUBLE:
      *number = Shortest(tensor.flat<double>()(0));
      return true;
    case tensorflow::DT_INT32:
      *number = Text(tensor.flat<tensorflow::int32>()(0));
      return true;
    case tensorflow::DT_INT64:
      *number = Text(tensor.flat<tensorflow::int64>()(0));
      return true;
    default:
      return false;
  }
}

// Returns true if the search for constants must end at `node`, because the node's value comes from another step or a
// feed.
bool IsSource(const Node& node) {
  return IsVariable(node) || Is(&node, {"Placeholder", "PlaceholderWithDefault", "IteratorGetNext", "_Arg", "_Recv"}) ||
         BeginsWith(node.type_string(), "Asc");
}

// Returns the value of a number as text if the number is a constant. For a computed number, returns the constants from
// which the number is computed. Returns only "computed" if the number depends on a collective or on too many nodes.
std::string ValueOf(const Port& port) {
  std::string number;
  if (NumberOf(port.node, &number)) return number;
  std::multiset<std::string> numbers;
  std::size_t visited = 0;
  bool is_known = true;
  VisitSources({port.node}, [&](const Node* node) {
    is_known = is_known && !IsCollective(*node) && ++visited <= kMostNodes;
    if (is_known && NumberOf(node, &number)) numbers.insert(number);
    return is_known && !IsSource(*node);
  });
  std::string text = "computed from";
  for (const std::string& one : numbers) text += " " + one;
  return !is_known || numbers.empty() ? "computed" : text;
}

class Facts {
 public:
  void Add(const std::string& item, const std::string& value) { items_[item].insert(value); }
  std::string text() const {
    std::string lines;
    for (const auto& item : items_) {
      std::string value;
      for (const std::string& one : item.second) value += (value.empty() ? "" : "; ") + one;
      lines += item.first + "\t" + value + "\n";
    }
    return lines;
  }

 private:
  std::map<std::string, std::multiset<std::string>> items_;
};

// Returns the number of the table that the handles refer to, or -1 if the handles do not come from a table.
int TableOfHandles(Node* handles) {
  int table = -1;
  VisitSources({handles}, [&table](const Node* node) {
    if (node->type_string() == "AscLocalRows") table = IntOf(node, "table");
    return table < 0;
  });
  return table;
}

// Calls `each` with the name and source of each hyper-parameter of an update.
template <typename Each>
void ForNumbers(const Node& update, const Each& each) {
  const char* const others[] = {"rows",
                                "accumulator",
                                "m",
                                "v",
                                "accum",
                                "linear",
                                "handles",
                                "grad",
                                "delta",
                                "indices",
                                "var",
                                "vhat",
                                "mom",
                                "ms",
                                "mg",
                                "gradient_accumulator",
                                "accum_update",
                                "gradient_squared_accumulator"};
  int place = 0;
  for (const auto& input : update.op_def().input_arg()) {
    if (place >= update.num_inputs()) return;
    if (std::find(std::begin(others), std::end(others), input.name()) == std::end(others))
      each(input.name(), Source(&update, place));
    ++place;
  }
}

void AddUpdateOfTable(const Node& update, const std::string& table, Facts* facts) {
  std::string formula = update.type_string().substr(std::string("AscApply").size());
  formula = formula.substr(0, formula.find("ByAddress"));
  const std::string begin = Text("table '", table, "', ");
  facts->Add(begin + "optimizer", formula);
  ForNumbers(update, [&](const std::string& name, const Port& port) {
    if (port.node != nullptr) facts->Add(begin + "optimizer's " + name, ValueOf(port));
  });
}

// Returns the variable that `node` updates, or null if `node` is not a TensorFlow op that applies a gradient to a
// variable.
const Node* UpdatedVariable(const Node& node, int* gradient) {
  const std::string& type = node.type_string();
  if (BeginsWith(type, "Asc") || type.find("Apply") == std::string::npos || node.num_inputs() == 0) return nullptr;
  *gradient = -1;
  int place = 0;
  for (const auto& input : node.op_def().input_arg()) {
    if (input.name() == "grad" || input.name() == "delta") *gradient = place;
    ++place;
  }
  const Node* variable = Source(&node, 0).node;
  return variable != nullptr && *gradient >= 0 && IsVariable(*variable) ? variable : nullptr;
}

void AddUpdateOfVariable(const Node& update, const Node& variable, Facts* facts) {
  DataType type = tensorflow::DT_INVALID;
  tensorflow::PartialTensorShape shape;
  std::string value;
  if (tensorflow::GetNodeAttr(variable.attrs(), "dtype", &type).ok()) value += tensorflow::DataTypeString(type) + " ";
  if (tensorflow::GetNodeAttr(variable.attrs(), "shape", &shape).ok()) value += shape.DebugString() + " ";
  value += update.type_string();
  ForNumbers(update, [&value](const std::string& name, const Port& port) {
    if (port.node != nullptr) value += " " + name + " " + ValueOf(port);
  });
  facts->Add(kVariableItem + variable.name(), value);
}

void AddCombiner(const Node& gradient, Facts* facts) {
  std::string combiner;
  float norm = 0;
  if (!tensorflow::GetNodeAttr(gradient.attrs(), "combiner", &combiner).ok()) return;
  tensorflow::GetNodeAttr(gradient.attrs(), "max_norm", &norm).IgnoreError();
  facts->Add("combiners of lookups", norm > 0 ? Text(combiner, " with max_norm ", norm) : combiner);
}

}  // namespace

std::string FactsOf(const Graph& graph, const Pipeline& pipeline) {
  Facts facts;
  Nodes collectives;
  std::map<const Node*, int> tables;  // table numbers by the variable that contains the table's rows
  for (Node* node : graph.op_nodes()) {
    if (IsCollective(*node)) collectives.push_back(node);
    if (node->type_string() == "AscNextPlan") tables[Source(node, 1).node] = IntOf(node, "table");
  }
  NodeSet fed;
  VisitReaders(collectives, [&fed](const Node* node) { fed.insert(node); });
  for (const Node* node : collectives) facts.Add(kCollectiveItem + NameOf(*node), node->type_string());
  for (const Node* node : graph.op_nodes()) {
    int gradient = -1;
    if (node->type_string() == "AscCombineRowsGrad") {
      AddCombiner(*node, &facts);
    } else if (BeginsWith(node->type_string(), "AscApply") && node->num_inputs() > 0) {
      Node* const first = Source(node, 0).node;
      const auto known = tables.find(first);
      const int number = known != tables.end() ? known->second : first == nullptr ? -1 : TableOfHandles(first);
      const Table* const table = pipeline.table(number);
      if (table != nullptr) AddUpdateOfTable(*node, table->name(), &facts);
    } else if (const Node* const variable = UpdatedVariable(*node, &gradient)) {
      const Node* const from = Source(node, gradient).node;
      if (from != nullptr && fed.count(from) > 0) AddUpdateOfVariable(*node, *variable, &facts);
    }
  }
  return facts.text();
}

}  // namespace ascpipe
