"""What an exception means, in words that are true wherever it is raised, and what can be done.

The text of an exception says what happened, and rarely why. So the meaning explains its words, and
the advice names no cause that this answer may not have: it says what to compare, or what is true
of PyTorch and Python in any case.
"""

import re

CALL = (
    "Compare the call with the signature of what is called, self included. A hook is called by"
    " PyTorch: with (module, args), the output last after the forward, and kwargs only if it was"
    " registered with with_kwargs=True."
)
# words of an exception, what they mean, and what can be done
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"return_types\.",
        "max(dim=…), min, median, sort and others give several results at once.",
        "Take the one that you need: .values or .indices; amax and amin give the values alone.",
    ),
    (
        r"unsupported operand .*'NoneType'|not NoneType|'NoneType' object|NoneType object",
        "Something is None here.",
        "A name set to None stays so until a line fills it. A function without return gives None,"
        " and so do append() and sort(). .grad is None for what the loss does not depend on, and"
        " for a tensor that was itself computed.",
    ),
    (
        r"must be Tensor, not tuple",
        "A tuple stands where a tensor is needed.",
        "If a layer gave it, as nn.MultiheadAttention gives a pair, take its part, pair[0]. If you"
        " wrote it, compare the order of the arguments with the signature.",
    ),
    (
        r"'tuple' object has no|'tuple' and|and 'tuple'",
        "A tuple, such as (a, b), stands where a single value is needed.",
        "[0], [1] and so on take its parts.",
    ),
    (
        r"'list' object has no attribute|unsupported operand .*'list'|multiply sequence by non-int"
        r"|can only concatenate list|list indices must be integers",
        "A list stands where a tensor is needed: it does not calculate, and takes one place at a"
        " time.",
        "torch.tensor(…) makes a tensor of a list of numbers, torch.stack(…) of a list of tensors.",
    ),
    (
        r"object is not callable",
        "Round brackets call what stands before them, and that is no function here.",
        "A product needs *, a place [ ], a plain value no brackets; layers in a list are called one"
        " after the other, as nn.Sequential does.",
    ),
    (
        r"does not support item assignment",
        "What is written into cannot be changed.",
        "A tuple is made anew: (new, *old[1:]).",
    ),
    (
        r"unhashable type",
        "What stands there cannot be a key of a dict, or a member of a set.",
        "Texts, numbers and tuples of them can.",
    ),
    (
        r"is not a Module subclass",
        "Something that is no module stands where a module is needed.",
        "nn.Sequential takes modules one by one: *layers takes a list apart.",
    ),
    (
        r"must be tuple of Tensors, not|expected Tensor as element",
        "A list of tensors is needed, and something else stands there, or in it.",
        "As in torch.stack([a, b], dim=0). torch.tensor(…) makes a tensor of numbers.",
    ),
    (
        r"maximum recursion depth",
        "A function calls itself without end, perhaps by way of another one.",
        "One case must be answered without a call, and every call must come nearer to it.",
    ),
    (
        r"not an iterator",
        "This does not give its values one after the other.",
        "next(…) needs iter(…) around a list. A function under @contextmanager must yield once, and"
        " not return: what stands before the yield runs before the block.",
    ),
    (
        r"^normal\(\) received an invalid combination",
        "torch.normal takes no such arguments.",
        "Its size is a tuple, as in torch.normal(mean, std, (n,)); torch.randn(n) gives n standard"
        " normal numbers.",
    ),
    (
        r"zip\(\) argument \d+ is (longer|shorter)",
        "zip with strict=True goes through several lists together, and here their lengths differ.",
        "Lists that may have different lengths have no pairs: make what you need, such as a mean,"
        " of each list by itself.",
    ),
    (
        r"invalid combination of arguments",
        "This function takes no such arguments.",
        "Compare their number, kinds and names with its signature.",
    ),
    (
        r"length of the desired ordering|duplicate dims",
        "permute must name every axis of the tensor once.",
        "Print its shape, and say of each axis where it should go.",
    ),
    (
        r"_IncompatibleKeys",
        "load_state_dict changes the module and gives back a report, not the module.",
        "Call it on a line of its own, and go on with the module.",
    ),
    (
        r"'(generator|zip|map|filter|dict_\w+|odict_\w+)' object is not subscriptable",
        "This gives its values one after the other, and has no places to ask for.",
        "list(…) makes a list of it; zip(a, b) goes through two of them together.",
    ),
    (
        r"not implemented for '(Long|Int|Bool)'",
        "This function does not take numbers of this kind (Long and Int are whole numbers).",
        "Compare the order of the arguments with the signature. .float() makes floats.",
    ),
    (
        r"not implemented for '(Float|Double)'",
        "This function does not take floats.",
        "Compare the order of the arguments with the signature. .long() makes whole numbers, a"
        " comparison truth values.",
    ),
    (
        r"not implemented for 'Complex",
        "This function does not take complex numbers.",
        "A power of a negative number can be one, and torch.polar makes them; torch.view_as_real"
        " takes both parts.",
    ),
    (
        r"unsupported operand .*'(Linear|LayerNorm|Conv2d|Embedding|Dropout|Sequential)'",
        "A layer stands where numbers are needed.",
        "A layer is called, layer(x); its numbers are layer.weight and layer.bias.",
    ),
    (
        r"'(builtin_function_or_method|method|function)'",
        "A function itself stands where its result is needed.",
        "A call has brackets, such as x.mean().",
    ),
    (
        r"cannot unpack non-iterable",
        "Several names are to be filled, and a single thing stands there.",
        "",
    ),
    (
        r"too many values to unpack|not enough values to unpack",
        "What is taken apart there has another number of parts than there are names for them.",
        "",
    ),
    (
        r"must be Tensor, not (?:int|float)|only be called with a Tensor",
        "A function of torch is given a plain number.",
        "math.sqrt, math.exp and ** take numbers; torch's functions take tensors.",
    ),
    (
        r"must be real number, not Tensor|only one element tensors can be conv"
        r"|cannot be converted to Scalar",
        "What takes one number, such as math.exp, float or .item(), is given a whole tensor.",
        "torch.exp and torch.log take tensors; mean() or sum() leaves one number; torch.stack makes"
        " one tensor of a list of tensors.",
    ),
    (
        r"found element of type float|must be int, not float|of ints, ?but got float"
        r"|'float' object cannot be interpreted|float.* as an ind",
        "A size or a place is a float.",
        "/ and math.sqrt give a float even where nothing is left over: //, math.isqrt and int(…)"
        " give whole numbers.",
    ),
    (
        r"must be tuple of ints.*Tensor|failed to unpack the object",
        "A size is no whole number: a tensor, or something else, stands there.",
        "Sizes are numbers such as x.shape[0]; of a tensor with one number int(…) makes one.",
    ),
    (
        r"tensors used as indices must be|valid indices",
        "What stands in the brackets is no index.",
        "Indices are whole numbers, slices, or tensors of whole numbers or booleans. Of floats that"
        " are places .long() makes whole numbers; of floats that say yes or no, 1 or 0, .bool()"
        " makes booleans.",
    ),
    (
        r"too many indices",
        "More axes are indexed than the tensor has.",
        "Print its shape. A number in the brackets takes its axis away.",
    ),
    (
        r"Expected \(batch_size, seq_length, hidden_dim\)",
        "The encoder and its blocks take three axes, images, tokens and numbers.",
        "A number in brackets takes its axis away, and a mask of two axes, z[mask], makes one of"
        " the two: unflatten(0, (n, -1)) makes two of it again.",
    ),
    (
        r"non-empty TensorList|arg is an empty sequence|iterable argument is empty",
        "There is nothing in the list.",
        "Print it before this line, and follow what should fill it.",
    ),
    (
        r"Index tensor must have the same number of dimensions",
        "The index of gather or scatter has another number of axes than the tensor.",
        "It needs as many, in the same order: unsqueeze adds the missing one, (n, 1) of (n,) or"
        " (n, k, 1) of (n, k), and expand repeats it along that axis where whole rows are chosen.",
    ),
    (
        r"doesn't match the broadcast shape",
        "What is written in place, as by +=, keeps its shape and cannot grow.",
        "A new tensor takes the larger shape: x = x + …",
    ),
    (
        r"same number of dimensions",
        "Tensors with different numbers of axes are joined.",
        "torch.cat joins along an axis that is there, and the tensors need the same number of axes;"
        " unsqueeze(…) or [None] adds one.",
    ),
    (
        r"math domain error",
        "The function has no value for this number.",
        "math.sqrt takes no negative numbers, and math.log only positive ones.",
    ),
    (
        r"could not infer output dtype|mean\(\): .*(Bool|Long)|std and var only support",
        "A mean or a spread of booleans or whole numbers is asked for.",
        "Turn them into floats first, .float().",
    ),
    (
        r"only integer tensors of a single element|only one element tensors",
        "A tensor stands where a plain number is needed, as in the brackets behind a list or a"
        " tuple, or where one is multiplied by it.",
        "Lists and tuples take one place, and only a tensor takes a tensor of places: of what"
        " max(dim=…) gives take .values, of what torch.autograd.grad gives [0].",
    ),
    (
        r"'(?:int|float)' object is not iterable",
        "A number stands where several values are needed.",
        "for k in range(n) counts from 0 to n - 1; max, min, sum and list take a list, or several"
        " values.",
    ),
    (
        r"Subtraction, the `-` operator, with .*bool",
        "Truth values cannot be subtracted.",
        "a & ~b is true where a is and b is not; .int() makes numbers of truth values.",
    ),
    (
        r"Boolean value of Tensor with more than one",
        "One yes or no is asked of many numbers at once.",
        "if, while, and, or and not take a single truth; a comparison of a whole tensor gives one"
        " for each number.",
    ),
    (
        r"expected input\[.*\] to have \d+ channels",
        "What goes into the convolution has another number of channels than its kernel.",
        "It takes (n, channels, h, w). With groups=channels each channel has a kernel of its own.",
    ),
    (
        r"Target -?\d+ is out of bounds",
        "A label is as large as the number of classes, or larger, or below 0.",
        "Labels count from 0. Print labels.max(), and the shape of the logits.",
    ),
    (
        r"out of bounds|index out of range",
        "There is no such place.",
        "Places count from 0 to the length - 1 (gather and scatter take no negative ones). Print"
        " the shape, and the number.",
    ),
    (
        r"missing \d+ required positional arg",
        "A function is called without what it needs.",
        CALL,
    ),
    (
        r"multiple values for",
        "One argument is given twice, by its place and by its name.",
        "Compare the call with the signature, self included.",
    ),
    (
        r"takes .* positional arguments? but|unexpected keyword",
        "A function is given what it does not take.",
        CALL,
    ),
    (
        r"loading state_dict",
        "The weights do not fit the module: names or shapes are others.",
        "Print the names and shapes of both: state_dict() has them.",
    ),
    (
        r'missing the required "forward"',
        "This module is called and has no forward.",
        "Is it spelt so? nn.ModuleList has none: its members are called one by one.",
    ),
    (
        r"before Module.__init__\(\) call",
        "nn.Module is not set up yet.",
        "super().__init__() is the first line of a module's __init__.",
    ),
    (
        r"cannot assign '.*' as parameter",
        "Only an nn.Parameter can take the place of a parameter.",
        "Fill the one that is there, in place: nn.init, or copy_ under torch.no_grad(). Where a new"
        " one is meant, nn.Parameter(…).",
    ),
    (
        r"param groups should be with/without names",
        "One group holds parameters, and another one pairs of a name and a parameter, which"
        " named_parameters() gives.",
        "Take the pairs apart: [p for name, p in model.named_parameters() if …].",
    ),
    (
        r"more than one parameter group",
        "The same parameter is in two groups of the optimizer.",
        "Each belongs to one: take it out of the group whose rate it should not have.",
    ),
    (
        r"don't multiply up to",
        "The sizes asked for do not multiply to the length of the axis that is split.",
        "Print the shape before it, and multiply the sizes.",
    ),
    (
        r"empty parameter list",
        "The optimizer is given nothing: there is nothing in this list.",
        "What is to learn must be there, and ask for a gradient, before the optimizer is made.",
    ),
    (
        r"One of the differentiated Tensors does not require grad",
        "A gradient is asked with respect to a tensor that does not ask for one.",
        "x.requires_grad_() comes before the loss is computed from x.",
    ),
    (
        r"to not have been used in the graph",
        "What is differentiated was not computed from this very tensor.",
        "A clone, a copy or a part of it that is made afterwards is another tensor. Ask for the"
        " gradient of the one from which it was computed.",
    ),
    (
        r"does not require grad",
        "Nothing that needs a gradient leads to this number.",
        "Look for .detach(), .item(), torch.no_grad(), requires_grad set to False, and buffers in"
        " the place of parameters.",
    ),
    (
        r"backward through the graph a second time",
        "The graph was used up by an earlier backward().",
        "Compute the loss anew for each backward(), and keep no tensor of the step before; several"
        " gradients of one graph need retain_graph=True, or one call for their sum.",
    ),
    (
        r"grad can be implicitly created only for scalar",
        "The gradient is asked of several numbers at once.",
        "Make one number of them first: of the sum, each picture gets the gradient of its own.",
    ),
    (
        r"shape of the mask",
        "The mask has not the shape of what it chooses from.",
        "A mask has one boolean for each entry of the first axes.",
    ),
    (
        r"Expected tensor for argument #1 'indices'|Expected dtype int",
        "Places and labels must be whole numbers.",
        ".long() makes whole numbers of floats.",
    ),
    (
        r"Expected tensor for argument|expected scalar type|same dtype|dtypes? match"
        r"|Input type \(|to be equal to src.dtype",
        "Two kinds of numbers meet, such as float32 and float64, or whole numbers and floats.",
        "Print .dtype of both. x.to(y.dtype) makes x like y; a new tensor takes dtype=y.dtype.",
    ),
    (
        r"object is not iterable",
        "What stands there holds nothing that can be gone through.",
        "A list, a tuple, a dict or a tensor does; a module has .parameters() and .children(), an"
        " optimizer .param_groups.",
    ),
    (
        r"object is not subscriptable",
        "The brackets [ ] stand behind something that has no places.",
        "Lists, tuples, dicts, tensors and nn.Sequential have places.",
    ),
    (
        r"referenced before assignment|cannot access (local|free)",
        "The function sets this name somewhere, and it was not set when this line ran.",
        "Is the line that sets it further down, or on a path that was not taken? Or is another name"
        " meant?",
    ),
)

FEWEST_TOKENS = 9  # from which one token more is told from another patch size
FEWER_AXES = (
    "Print its shape. Axes count from 0, and -1 is the last. x[:, 0] takes an axis away, and a"
    " table of booleans, x[is_right], puts all that it chooses into one row."
)
FIT = "The shapes do not fit together"
BOTH = "Print both shapes, and say of each axis what it stands for."
SHAPES = re.compile(
    r"must match the size of tensor|must match the existing size|didn't match"
    r"|shapes cannot be multiplied|Expected size for|does not match"
    r"|Sizes of tensors must match|inconsistent tensor size|mat1 and mat2"
    r"|expected input with shape|equal size"
)
PRODUCT = re.compile(r"\((\d+)x(\d+) and (\d+)x(\d+)\)")
VECTOR = re.compile(r"mat \(\d+x(\d+)\), vec \((\d+)\)")
LINED_UP = re.compile(
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton"
)
COUNTS = re.compile(r"shape '\[([\d, -]+)\]' is invalid for input of size (\d+)")
AXES = re.compile(r"Dimension out of range \(expected to be in range of \[-(\d+), .*got (-?\d+)\)")
SUBSCRIPTS = re.compile(
    r"subscripts in the equation \((\d+)\) does not match the number of dimensions \((\d+)\)"
    r" for operand (\d+)"
)


def meaning_of(text: str) -> tuple[str, str]:
    """What the words of an exception mean, and what can be done; ("", "") if that is not known."""
    counted = _of_sizes(text)
    if counted != ("", ""):
        return counted
    for words, meaning, instead in MEANINGS:
        if re.search(words, text):
            return meaning, instead
    return (f"{FIT}.", BOTH) if SHAPES.search(text) else ("", "")


def _of_sizes(text: str) -> tuple[str, str]:
    """The same of sizes that stand in the text; ("", "") if there are none."""
    if found := AXES.search(text):
        axes = int(found[1])
        has = "one axis only" if axes == 1 else f"{axes} axes"
        return f"What it is applied to has {has}, and so no axis {found[2]}.", FEWER_AXES
    if found := COUNTS.search(text):
        sizes = [int(size) for size in found[1].split(",")]
        return _of_counts(sizes, int(found[2]))
    if found := SUBSCRIPTS.search(text):
        return (
            f"The equation names {found[1]} axes of tensor {found[3]}, counted from 0, and it has"
            f" {found[2]}.",
            "... stands for any number of axes in front, as in ...d,wd->...w.",
        )
    if found := PRODUCT.search(text):
        return (
            f"{FIT}: a matrix product wants as many columns on the left, here {found[2]}, as rows"
            f" on the right, here {found[3]}.",
            BOTH,
        )
    if found := VECTOR.search(text):
        return (
            f"{FIT}: a matrix product wants as many columns on the left, here {found[1]}, as the"
            f" vector has places, here {found[2]}.",
            BOTH,
        )
    if found := LINED_UP.search(text):
        return (
            f"{FIT}: lined up from the last axis, one has {found[1]} places where the other has"
            f" {found[2]}.",
            BOTH,
        )
    return "", ""


def _of_counts(sizes: list[int], numbers: int) -> tuple[str, str]:
    """Of a reshape: how many numbers the sizes would make, and how many there are."""
    product = 1
    for size in sizes:
        product *= size if size > 0 else 1
    instead = "Print the shape before it, and multiply both out."
    if -1 in sizes:
        said = f"The sizes asked for multiply to {product}, which does not divide {numbers}"
    else:
        said = f"The sizes asked for make {product} numbers, and there are {numbers}"
        apart = abs(product - numbers)
        if product % apart == 0 and min(product, numbers) >= FEWEST_TOKENS * apart:
            instead += " Is the class token counted in one of the two only?"
    return f"{said}.", instead
