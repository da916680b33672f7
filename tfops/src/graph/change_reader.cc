// Reads the ops of a step that change tables: plan ops, optimizer updates, and ops that write rows by handle.
#include <algorithm>
#include <cstring>
#include <string>

#include "graph/graph_order.h"
#include "graph/numbered.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

// Optimizer formula. The first inputs of an update op are the states, and the next inputs are the parameters.
struct Formula {
  int states;
  int parameters;
};
const std::map<std::string, Formula>& Formulas() {
  static const auto* const formulas = new std::map<std::string, Formula>{{"AscApplyGradientDescent", {1, 2}},
                                                                         {"AscApplyAdagrad", {2, 1}},
                                                                         {"AscApplyLazyAdam", {3, 6}},
                                                                         {"AscApplyFtrl", {3, 5}}};
  return *formulas;
}

// Returns a parameter as text: the value of the parameter, or the port that computes the value.
std::string Parameter(const Port& port) {
  tensorflow::Tensor value;
  if (!ReadTensor(port.node, &value) || value.dtype() != tensorflow::DT_FLOAT || value.NumElements() != 1) {
    return port.node->name() + ":" + std::to_string(port.index);
  }
  std::uint32_t bits;
  std::memcpy(&bits, value.flat<float>().data(), sizeof(bits));
  return "bits " + std::to_string(bits);
}

bool AreVariables(const Node& node, int first, int count) {
  for (int i = first; i < first + count; ++i) {
    if (Source(&node, i).node->type_string() != "VariableV2") return false;
  }
  return true;
}

class ChangeReader {
 public:
  explicit ChangeReader(Numbered* all) : all_(*all), step_(all->step) {}

  void Read() {
    ReadPlans();
    ReadUpdates();
    ReadHandles();
  }

 private:
  void ReadPlans() {
    for (Node* node : all_.All("AscNextPlan")) {
      Plan plan;
      plan.item = all_.ItemOf(node);
      plan.ticket = all_.ValueOf(Source(node, 0));
      plan.ticket_source = all_.ItemOf(Source(node, 0).node);
      plan.stream = IntOf(node, "stream");
      plan.trains = IsTrue(*node, "training");
      std::vector<int> widths;
      plan.may_merge = tensorflow::GetNodeAttr(node->attrs(), "slot_widths", &widths).ok() && widths.empty() &&
                       AreVariables(*node, 1, IntOf(node, "n_state"));
      for (const Edge* edge : node->in_edges()) {
        if (!plan.trains && edge->src()->IsOp()) plan.inputs.push_back(all_.ItemOf(edge->src()));
      }
      step_.plans.push_back(plan);
      all_.waiting.push_back(node);
    }
    Nodes changes = all_.All("AscCut");  // ops that move rows, or let another step move rows
    for (const char* type : {"AscTableInit", "AscNextPlan"}) {
      for (Node* node : all_.All(type)) {
        if (IsTrue(*node, "training")) changes.push_back(node);
      }
    }
    ByName(&changes);
    step_.changes = all_.ItemsOf(changes);
  }

  void ReadUpdates() {
    for (const auto& entry : Formulas()) {
      for (Node* node : all_.All(entry.first.c_str())) {
        const int gradient = entry.second.states + entry.second.parameters;
        Update update;
        update.item = all_.ItemOf(node);
        update.states = entry.second.states;
        if (!IsTrue(*node, "use_locking") && AreVariables(*node, 0, entry.second.states)) {
          update.formula = entry.first + " " + std::to_string(node->input_type(node->num_inputs() - 1));
          for (int i = entry.second.states; i < gradient; ++i) update.formula += " " + Parameter(Source(node, i));
        }
        step_.updates.push_back(update);
        all_.waiting.push_back(node);
      }
    }
  }

  void ReadHandles() {
    Nodes writes;
    for (const char* type : {"AscWriteRows", "AscApplyGradientDescentByAddress", "AscApplyAdagradByAddress",
                             "AscApplyLazyAdamByAddress"}) {
      writes.insert(writes.end(), all_.All(type).begin(), all_.All(type).end());
    }
    ByName(&writes);
    std::vector<Nodes> written;  // for each op: the AscLocalRows ops that produce the handles in input 0
    for (const Node* write : writes) written.push_back(Origins({Source(write, 0).node}, "AscLocalRows"));
    step_.handle_writes = all_.ItemsOf(writes);
    for (Node* node : all_.All("AscReadRows")) {
      HandleRead read;
      read.item = all_.ItemOf(node);
      const Nodes copies = Origins({Source(node, 0).node}, "AscLocalRows");
      for (std::size_t i = 0; i < writes.size(); ++i) {
        const bool same = std::any_of(written[i].begin(), written[i].end(), [&](Node* copy) {
          return std::find(copies.begin(), copies.end(), copy) != copies.end();
        });
        if (same) read.writes.push_back(step_.handle_writes[i]);
      }
      step_.handle_reads.push_back(read);
    }
  }

  Numbered& all_;
  Step& step_;
};

}  // namespace

void ReadChanges(Numbered* numbered) { ChangeReader(numbered).Read(); }

}  // namespace step
}  // namespace ascpipe
