"""Finds what XLA compiles in a graph of TensorFlow."""


def find_compiled(function, *arguments):
    """Returns the operations of a `tf.function` inside of each function that XLA compiles, and those outside of all.

    Each is a set of types of operations, such as "MatMul". Nothing is compiled or run.
    """
    graph = function.get_concrete_function(*arguments).graph.as_graph_def()
    functions = {found.signature.name: found for found in graph.library.function}
    compiled, outside = [], set()

    def visit(nodes, found):
        for node in nodes:
            names = [value.func.name for value in node.attr.values() if value.func.name in functions]
            names += [each.name for value in node.attr.values() for each in value.list.func]
            found.add(node.op)
            for name in names:
                inner = found
                if found is outside and functions[name].attr["_XlaMustCompile"].b:
                    compiled.append(inner := set())
                visit(functions[name].node_def, inner)

    visit(graph.node, outside)
    return compiled, outside
