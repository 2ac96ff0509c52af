"""What an exception means, in words that are true wherever it is raised, and what can be done.

The text of an exception says what happened, and rarely why. So the meaning explains its words, and
the advice names no cause that this answer may not have: it says what to compare, or what is true
of PyTorch and Python in any case.
"""

import re

# words of an exception, what they mean, and what can be done
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"return_types\.",
        "max(dim=…), min, median, sort and others give several results at once.",
        "Take the one that you need: .values or .indices; amax and amin give the values alone.",
    ),
    (
        r"unsupported operand .*'NoneType'|must be Tensor, not NoneType|'NoneType' object",
        "Something is None here.",
        "A function without return gives None; .grad is None for what the loss does not depend on,"
        " and for a tensor that was itself computed (torch.autograd.grad gives its gradient).",
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
        r"'list' object has no attribute '(dtype|shape|dim|to|float|device|T)'",
        "A list stands where a tensor is needed.",
        "torch.tensor(…) makes one of a list of numbers, torch.stack(…) of a list of tensors.",
    ),
    (
        r"'Tensor' object is not callable",
        "Brackets after a tensor call it, as if it were a function.",
        "Should it be [ ], a product with *, or another name?",
    ),
    (
        r"'(builtin_function_or_method|method|function)'",
        "A function itself stands where its result is needed.",
        "A call has brackets, such as x.mean().",
    ),
    (
        r"too many values to unpack|not enough values to unpack|cannot unpack",
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
        "torch.exp, torch.log and others take tensors; .tolist() gives all numbers.",
    ),
    (
        r"found element of type float|got float|'float' object cannot be interpreted"
        r"|float.* as an ind",
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
        "Indices are whole numbers, slices, or tensors of whole numbers or booleans: .long() makes"
        " whole numbers of floats.",
    ),
    (
        r"too many indices",
        "More axes are indexed than the tensor has.",
        "Print its shape. A number in the brackets takes its axis away.",
    ),
    (
        r"non-empty TensorList|arg is an empty sequence|iterable argument is empty",
        "There is nothing in the list.",
        "Print it before this line, and follow what should fill it.",
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
        r"could not infer output dtype|mean\(\): .*(Bool|Long)",
        "mean() does not take booleans or whole numbers.",
        "Turn them into floats first: .float().mean() is the share of True.",
    ),
    (
        r"only integer tensors of a single element|only one element tensors",
        "A tensor stands where a plain number is needed, as where a tuple or a list is multiplied"
        " by it.",
        "int(…) or .item() makes a number of a tensor that holds one; a tuple, such as"
        " torch.autograd.grad gives, is unpacked, or its [0] is taken.",
    ),
    (
        r"'(?:int|float)' object is not iterable",
        "A number is gone through as if it were a list.",
        "for k in range(n) counts from 0 to n - 1.",
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
        r"out of bounds|index out of range",
        "There is no such place: what is indexed is shorter.",
        "Print its shape or length, and the number: places count from 0.",
    ),
    (
        r"missing \d+ required positional arg",
        "A function is called without what it needs.",
        "Compare the call with the signature of what is called. If it is a hook, PyTorch calls it:"
        " (module, args), with the output last after the forward, and kwargs only if it was"
        " registered with with_kwargs=True.",
    ),
    (
        r"takes .* positional arguments? but|unexpected keyword|multiple values for",
        "A function is given what it does not take.",
        "Compare the call with its signature, self included.",
    ),
    (
        r"size mismatch|loading state_dict",
        "The weights do not fit the module: names or shapes are others.",
        "Print the names and shapes of both: state_dict() has them.",
    ),
    (
        r"before Module.__init__\(\) call",
        "nn.Module is not set up yet.",
        "super().__init__() is the first line of a module's __init__.",
    ),
    (
        r"cannot assign '.*' as parameter",
        "A plain tensor cannot take the place of a parameter.",
        "Fill the one that is there, in place: nn.init, or copy_ under torch.no_grad(). Where a new"
        " one is meant, nn.Parameter(…).",
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
        r"Expected tensor for argument|must have the same dtype|expected scalar type|same dtype",
        "Two kinds of numbers meet, such as float32 and float64.",
        "A new tensor has the kind of x with dtype=x.dtype.",
    ),
    (
        r"is not defined",
        "The name stands for nothing here.",
        "Is it misspelt, or set in a cell that has not run?",
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
    "Print its shape. A number in the place of an axis, x[:, 0], takes this axis away; a table of"
    " booleans, x[is_right], puts all that it chooses into one row. x * is_right, or masked_fill,"
    " keeps the axes."
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
    return "", ""


def _of_sizes(text: str) -> tuple[str, str]:
    """The same of sizes that do not fit, with the sizes that stand in the text."""
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
    if not SHAPES.search(text):
        return "", ""
    if found := PRODUCT.search(text):
        return (
            f"{FIT}: a matrix product wants as many columns on the left, here {found[2]}, as rows"
            f" on the right, here {found[3]}.",
            BOTH,
        )
    if found := LINED_UP.search(text):
        return (
            f"{FIT}: lined up from the last axis, one has {found[1]} places where the other has"
            f" {found[2]}.",
            BOTH,
        )
    return f"{FIT}.", BOTH


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
