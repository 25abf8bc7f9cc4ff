"""Tasks: Django 6 has them, before that the package django-tasks."""

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@task(queue_name="mail", priority=10)
def welcome(to: str, *, greeting: str = "Welcome") -> str:
    return f"{greeting}, {to}!"


@task(takes_context=True)
async def second_try(context) -> int:
    if context.attempt == 1:
        raise ValueError("the first attempt fails")
    return context.attempt
