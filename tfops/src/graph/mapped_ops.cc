#include "graph/mapped_ops.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "bridge/compatibility.h"
#include "graph/new_ops.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"

namespace ascpipe {

using tensorflow::DataTypeVector;
using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// Appends `port` to `ports` if `ports` does not contain it.
void AddPort(const Port& port, std::vector<Port>* ports) {
  if (std::find(ports->begin(), ports->end(), port) == ports->end()) ports->push_back(port);
}

void AddInput(const std::vector<Port>& ports, NodeBuilder* builder) {
  step::Outs outs;
  for (const Port& port : ports) outs.push_back(port.out());
  builder->Input(outs);
}

DataTypeVector TypesOf(const std::vector<Port>& ports) {
  DataTypeVector types;
  for (const Port& port : ports) types.push_back(port.node->output_type(port.index));
  return types;
}

}  // namespace

void MappedOps::AddResult(Node* result, const tensorflow::PartialTensorShape& shape) {
  results_.push_back(result);
  shapes_.push_back(shape);
}

Status MappedOps::Write(const IsBatched& is_batched, tensorflow::FunctionLibraryDefinition* library) {
  if (!results_.empty()) {
    FindInputs(is_batched);
    tensorflow::NameAttrList function;
    TF_RETURN_IF_ERROR(WriteFunction(library, &function));
    DataTypeVector types;
    for (const Node* result : results_) types.push_back(result->input_type(0));
    NodeBuilder builder(body_->NewName("ascpipe/each_element"), "MapDefun", body_->op_registry());
    AddInput(elements_, &builder);
    AddInput(captured_, &builder);
    builder.Attr("Targuments", TypesOf(elements_)).Attr("Tcaptured", TypesOf(captured_));
    builder.Attr("output_types", types).Attr("output_shapes", shapes_).Attr("f", function);
    Node* map = nullptr;
    TF_RETURN_IF_ERROR(Place(body_, &builder, {}, *batch_.node, &map));
    for (std::size_t i = 0; i < results_.size(); ++i) {
      TF_RETURN_IF_ERROR(body_->UpdateEdge(map, static_cast<int>(i), results_[i], 0));
    }
  }
  for (Node* node : nodes_) body_->RemoveNode(node);
  return OkStatus();
}

void MappedOps::FindInputs(const IsBatched& is_batched) {
  const auto add = [this, &is_batched](const Port& port) {
    if (std::find(nodes_.begin(), nodes_.end(), port.node) != nodes_.end()) return;
    AddPort(port, is_batched(port) ? &elements_ : &captured_);
  };
  for (const Node* node : nodes_) {
    for (int i = 0; i < node->num_inputs(); ++i) add(Source(node, i));
  }
  for (const Node* result : results_) add(Source(result, 0));
  if (elements_.empty()) elements_.push_back(batch_);  // MapDefun reads the number of elements from its inputs.
}

Status MappedOps::WriteFunction(tensorflow::FunctionLibraryDefinition* library, tensorflow::NameAttrList* function) {
  Graph graph(*library);
  std::vector<Port> inputs = elements_;
  inputs.insert(inputs.end(), captured_.begin(), captured_.end());
  Nodes arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    NodeBuilder builder("argument_" + std::to_string(i), "_Arg", graph.op_registry());
    builder.Attr("T", inputs[i].node->output_type(inputs[i].index)).Attr("index", static_cast<int>(i));
    Node* argument = nullptr;
    TF_RETURN_IF_ERROR(builder.Finalize(&graph, &argument));
    arguments.push_back(argument);
  }
  std::unordered_map<const Node*, Node*> copies;
  const auto copy_of = [&](const Port& port) -> Port {
    const auto copy = copies.find(port.node);
    if (copy != copies.end()) return {copy->second, port.index};
    const auto input = std::find(inputs.begin(), inputs.end(), port);
    return {arguments[static_cast<std::size_t>(input - inputs.begin())], 0};
  };
  for (const Node* node : nodes_) {
    Status status;
    Node* const copy = graph.AddNode(node->def(), &status);
    TF_RETURN_IF_ERROR(status);
    copies[node] = copy;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge()) {
        const Port source = copy_of({edge->src(), edge->src_output()});
        graph.AddEdge(source.node, source.index, copy, edge->dst_input());
      } else if (copies.count(edge->src()) != 0) {
        graph.AddControlEdge(copies[edge->src()], copy);
      }
    }
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    NodeBuilder builder("result_" + std::to_string(i), "_Retval", graph.op_registry());
    builder.Input(copy_of(Source(results_[i], 0)).out());
    builder.Attr("T", results_[i]->input_type(0)).Attr("index", static_cast<int>(i));
    Node* result = nullptr;
    TF_RETURN_IF_ERROR(builder.Finalize(&graph, &result));
  }
  tensorflow::FunctionDef definition;
  function->set_name(library->UniqueFunctionName("ascpipe_each_element_"));
  TF_RETURN_IF_ERROR(tensorflow::GraphToFunctionDef(graph, function->name(), &definition));
  return library->AddFunctionDef(definition);
}

}  // namespace ascpipe
